//! The API: the same on the leader and on followers.
//!
//! The order of checks is part of the contract: token, method, `waitSeconds`, body, required fields, target,
//! store.

mod docs;
mod error;
mod history;
mod request;

use std::sync::Arc;

use axum::{
    Json, Router,
    body::Bytes,
    extract::{
        DefaultBodyLimit, Path, RawQuery, State,
        rejection::{BytesRejection, PathRejection},
    },
    http::StatusCode,
    middleware,
    routing::{any, get, post},
};
use sha2::{Digest, Sha256};
pub use tenure_http::Guard;

use self::{
    error::ApiError,
    request::{Request, wait_seconds},
};
use crate::{
    instance::Instance,
    intake::Intake,
    intent::{HistoryView, IntentView},
    registry::Registry,
    store::{Store, Submission, Submitted},
    waiters::Waiters,
};

/// The largest request, in bytes.
pub const LARGEST_REQUEST: usize = 1024 * 1024;

/// What the handlers share.
struct Api {
    registry: Arc<Registry>,
    store: Arc<dyn Store>,
    intake: Intake,
    waiters: Waiters,
}

/// The routes of an instance; `/v1` and `/ui` are for whom the guard lets in.
pub fn routes(instance: &Instance, guard: Guard) -> Router {
    let api = Arc::new(Api {
        registry: Arc::clone(&instance.registry),
        store: Arc::clone(&instance.store),
        intake: instance.intake.clone(),
        waiters: instance.waiters.clone(),
    });
    let v1 = Router::new()
        .route("/v1/intents", post(submit))
        .route("/v1/intents/{intentId}", get(intent))
        .route("/v1/intents/{intentId}/history", get(history))
        .route("/v1/{*other}", any(async || ApiError::no_such_path()))
        .method_not_allowed_fallback(async || ApiError::method_not_allowed())
        .layer(DefaultBodyLimit::max(LARGEST_REQUEST));
    let ui = Router::new()
        .route("/ui/history", post(history::fragment))
        .layer(DefaultBodyLimit::max(LARGEST_REQUEST))
        .method_not_allowed_fallback(async || {
            (StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n")
        });
    let guarded = v1.merge(ui).with_state(api);
    let is_secret = matches!(guard, Guard::Bearer(_));
    let targets = (!is_secret).then(|| instance.registry.names());
    let described = Router::new()
        .route("/openapi.json", get(docs::openapi))
        .route("/docs", get(docs::page))
        .with_state(docs::describe(targets));
    guarded.layer(middleware::from_fn_with_state(guard, error::keep_out)).merge(described)
}

/// Submit an intent
///
/// The same id, target and payload again is the same intent. Anything else under an id that exists is a
/// conflict.
#[utoipa::path(
    post,
    path = "/v1/intents",
    params(("waitSeconds" = Option<u32>, Query,
        description = "How long to wait for the first outcome; at most 30")),
    request_body(content = request::RequestBody, content_type = "application/json"),
    responses(
        (status = 200, description = "The intent, new and repeated alike", body = IntentView),
        (status = 400, description = "The request is wrong", body = error::ErrorBody),
        (status = 401, description = "A token is asked for", body = error::ErrorBody),
        (status = 409, description = "The id has something else", body = error::ErrorBody),
        (status = 413, description = "The request is too large", body = error::ErrorBody),
        (status = 500, description = "The database does not answer", body = error::ErrorBody),
    )
)]
async fn submit(
    State(api): State<Arc<Api>>,
    RawQuery(query): RawQuery,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<IntentView>, ApiError> {
    let wait = wait_seconds(query.as_deref())?;
    let body = body.map_err(|rejection| ApiError::of_body(rejection.status()))?;
    let request = Request::read(&body)?;
    let contract = api.registry.contract(&request.submission_target);
    let contract = contract.ok_or_else(|| ApiError::unknown_target(&request.submission_target))?;
    let submission = Submission {
        payload_hash: Sha256::digest(&request.payload).into(),
        payload: request.payload,
        intent_id: request.intent_id.clone(),
        submission_target: request.submission_target.clone(),
        contract,
    };
    let stored = match api.intake.submit(submission).await.map_err(|_| ApiError::internal())? {
        Submitted::New(stored) | Submitted::Existing(stored) => stored,
        Submitted::Conflict { existing_target } => {
            return Err(ApiError::conflict(
                &request.intent_id,
                &existing_target,
                &request.submission_target,
            ));
        }
        Submitted::Refused => return Err(ApiError::invalid_body()),
    };
    let stored = match wait {
        Some(wait) => api.waiters.wait(&*api.store, stored, wait).await,
        None => stored,
    };
    Ok(Json(stored.view))
}

/// Read an intent
#[utoipa::path(
    get,
    path = "/v1/intents/{intentId}",
    params(("intentId" = String, Path, description = "The id that it was submitted with")),
    responses(
        (status = 200, description = "The intent", body = IntentView),
        (status = 401, description = "A token is asked for", body = error::ErrorBody),
        (status = 404, description = "There is none", body = error::ErrorBody),
        (status = 500, description = "The database does not answer", body = error::ErrorBody),
    )
)]
async fn intent(
    State(api): State<Arc<Api>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<IntentView>, ApiError> {
    let Path(id) = id.map_err(|_| ApiError::not_found(""))?;
    find(&*api.store, &id).await.map(Json)
}

/// Read an intent with everything that was tried
#[utoipa::path(
    get,
    path = "/v1/intents/{intentId}/history",
    params(("intentId" = String, Path, description = "The id that it was submitted with")),
    responses(
        (status = 200, description = "The intent and its attempts, in order", body = HistoryView),
        (status = 401, description = "A token is asked for", body = error::ErrorBody),
        (status = 404, description = "There is none", body = error::ErrorBody),
        (status = 500, description = "The database does not answer", body = error::ErrorBody),
    )
)]
async fn history(
    State(api): State<Arc<Api>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<HistoryView>, ApiError> {
    let Path(id) = id.map_err(|_| ApiError::not_found(""))?;
    history_of(&*api.store, &id).await.map(Json)
}

async fn find(store: &dyn Store, id: &str) -> Result<IntentView, ApiError> {
    // What cannot be an id is none, and the database need not be asked.
    if !request::can_be_an_id(id) {
        return Err(ApiError::not_found(id));
    }
    let found = store.find(&[id]).await.map_err(|error| ApiError::of_store(&error))?;
    found.into_iter().next().map(|stored| stored.view).ok_or_else(|| ApiError::not_found(id))
}

async fn history_of(store: &dyn Store, id: &str) -> Result<HistoryView, ApiError> {
    let intent = find(store, id).await?;
    let attempts = store.attempts(id).await.map_err(|error| ApiError::of_store(&error))?;
    Ok(HistoryView { intent, attempts })
}
