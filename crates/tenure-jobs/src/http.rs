//! The API: reads on every node, changes on the leader.
//!
//! The order of checks is part of the contract: token, leadership, body, the leader's epoch, the rest. Whoever asks a
//! node that does not lead for a change gets the same bytes whatever it sent.

mod agents;
mod described;
mod docs;
mod error;
mod events;
mod jobs;
mod leases;
mod read;
mod results;

use std::sync::Arc;

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{delete, get, post},
};
use tenure_http::{Guard, Stand, key_for_header};
use tokio::sync::Semaphore;

use self::error::ApiError;
use crate::controller::Controller;

/// The largest request, in bytes.
pub const LARGEST_REQUEST: usize = 4 * 1024 * 1024;
/// The largest payload, result or text, in bytes.
pub const LARGEST_VALUE: usize = 1024 * 1024;
/// The largest of what an agent says of itself, in bytes.
const LARGEST_SMALL_VALUE: usize = 16 * 1024;
/// How many may follow the events at once.
const MOST_FOLLOWERS: usize = 256;

const ROLE: HeaderName = HeaderName::from_static("x-dspu-role");
const LEADER_EPOCH: HeaderName = HeaderName::from_static("x-dspu-leader-epoch");
const LEADER_ID: HeaderName = HeaderName::from_static("x-dspu-leader-id");

/// Who may call what.
#[derive(Clone, Debug)]
pub struct Access {
    /// Those who submit jobs and look at them.
    pub clients: Guard,
    /// Those who work on them.
    pub agents: Guard,
}

/// What the handlers share.
pub(crate) struct Api {
    controller: Controller,
    followers: Arc<Semaphore>,
}

type Shared = State<Arc<Api>>;

/// The routes of a controller.
pub fn routes(controller: &Controller, access: Access) -> Router {
    let followers = Arc::new(Semaphore::new(MOST_FOLLOWERS));
    let api = Arc::new(Api { controller: controller.clone(), followers });
    let clients = Router::new()
        .route("/v1/jobs", post(jobs::submit).get(jobs::list))
        .route("/v1/jobs/{job_id}", get(jobs::show))
        .route("/v1/leases/expire", post(leases::expire))
        .route("/v1/agents", get(agents::list))
        .route("/v1/agents/{agent_name}", delete(agents::bury))
        .route("/v1/events", get(events::follow))
        .layer(middleware::from_fn_with_state(access.clients, tenure_http::keep_out));
    let agents = Router::new()
        .route("/v1/leases", post(leases::lease))
        .route("/v1/results", post(results::report))
        .route("/v1/agents/heartbeat", post(agents::hear))
        .layer(middleware::from_fn_with_state(access.agents, tenure_http::keep_out));
    let described = Router::new().route("/openapi.json", get(docs::openapi));
    clients
        .merge(agents)
        .merge(described)
        // More than is taken is read: whoever still sends does not hear why it is refused.
        .layer(DefaultBodyLimit::max(2 * LARGEST_REQUEST))
        .with_state(api)
}

/// What a node answers where there is nothing, and what every answer of it carries.
pub fn with_role(routes: Router, stand: Stand) -> Router {
    routes
        .fallback(async || ApiError::no_such_path())
        .method_not_allowed_fallback(async || ApiError::method_not_allowed())
        .layer(middleware::from_fn_with_state(stand, add_role))
}

async fn add_role(State(stand): State<Stand>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    name_role(&stand, response.headers_mut());
    response
}

fn name_role(stand: &Stand, headers: &mut HeaderMap) {
    let role = stand.role();
    let id = key_for_header(role.leader_id.as_deref().unwrap_or_default());
    headers.insert(ROLE, HeaderValue::from_static(role.role));
    headers.insert(LEADER_EPOCH, role.leader_epoch.into());
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(LEADER_ID, id);
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.response()
    }
}
