//! Leases: jobs for an agent, and jobs taken from one.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    Shared,
    described::{NameText, NotDone},
    error::{ApiError, OtherError},
    jobs,
    read::{self, Body},
};
use crate::{
    job::State as JobState,
    leader::{LeaseAsked, Leased},
    queue::Ops,
    round::{Recall, Task},
};

/// How many jobs at once, and how long to wait for them.
const MOST_TASKS: i64 = 64;
const LONGEST_WAIT_MS: i64 = 120_000;
/// How many ops an agent may name.
const MOST_OPS: usize = 1_000;

#[derive(Deserialize, ToSchema)]
pub(crate) struct LeaseBody {
    /// Who asks.
    #[schema(value_type = NameText)]
    agent: Option<String>,
    /// Where it works. Default: `default`.
    #[schema(value_type = Option<NameText>)]
    namespace: Option<String>,
    /// What it can do. Default: whatever comes.
    capabilities: Option<Capabilities>,
    /// How many jobs at most, 1 to 64. Default: 1.
    #[schema(minimum = 1, maximum = 64)]
    #[serde(default, deserialize_with = "read::whole")]
    max_tasks: Option<i64>,
    /// How long to wait for the first, 0 to 120000. Default: 0.
    #[schema(minimum = 0, maximum = 120_000)]
    #[serde(default, deserialize_with = "read::whole")]
    timeout_ms: Option<i64>,
    /// The leases that it works on: of others that an earlier leader granted it, it was never told, and their jobs are
    /// queued again. Whoever sends it asks for jobs in one place at a time.
    #[schema(value_type = Option<Vec<NameText>>, max_items = 4_096)]
    leases: Option<Vec<String>>,
    /// The term that the caller believes the leader to be in.
    #[serde(default, deserialize_with = "read::whole")]
    leader_epoch: Option<i64>,
}

/// Ops, as a list or in an object.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
enum Capabilities {
    List(OpNames),
    Object { ops: OpNames },
}

#[derive(Deserialize, ToSchema)]
#[schema(value_type = Vec<NameText>, max_items = 1_000)]
struct OpNames(Vec<String>);

#[derive(Serialize, ToSchema)]
pub(crate) struct LeasedBody {
    lease_id: String,
    leader_epoch: i64,
    tasks: Vec<TaskBody>,
}

#[derive(Serialize, ToSchema)]
struct TaskBody {
    job_id: String,
    job_epoch: i64,
    op: String,
    #[schema(value_type = Value)]
    payload: Box<RawValue>,
    pinned_agent: Option<String>,
}

#[derive(Deserialize, ToSchema)]
pub(crate) struct ExpireBody {
    /// Which job.
    #[schema(value_type = NameText)]
    job_id: Option<String>,
    /// Where it is. Default: `default`.
    #[schema(value_type = Option<NameText>)]
    namespace: Option<String>,
    /// Why.
    #[schema(value_type = Option<NameText>)]
    reason: Option<String>,
    /// The term that the caller believes the leader to be in.
    #[serde(default, deserialize_with = "read::whole")]
    leader_epoch: Option<i64>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct ExpiredBody {
    ok: bool,
    /// Whether an agent had it.
    expired: bool,
    /// The job's epoch now.
    job_epoch: i64,
}

/// Take jobs for an agent
///
/// The highest priority first, then what is pinned to the agent, then the oldest; only what the agent can do.
#[utoipa::path(
    post,
    path = "/v1/leases",
    request_body(content = LeaseBody, content_type = "application/json"),
    responses(
        (status = 200, description = "Jobs", body = LeasedBody),
        (status = 204, description = "There was nothing in time"),
        (status = 400, description = "The request is wrong", body = OtherError),
        (status = 401, description = "A token is asked for"),
        (status = 409, description = "Another node leads, or another term", body = NotDone),
        (status = 413, description = "The request is too large", body = OtherError),
        (status = 422, description = "A field is missing", body = OtherError),
        (status = 503, description = "The database does not answer, or too many wait", body = OtherError),
    )
)]
pub(crate) async fn lease(State(api): Shared, body: Body) -> Result<Response, ApiError> {
    let term = read::require_leader(&api)?;
    let body: LeaseBody = read::object(body)?;
    read::require_epoch(&api, body.leader_epoch, term)?;
    let leased = api.controller.desk.lease(asked(body)?).await;
    let Leased { lease_id, tasks } =
        leased.map_err(|why| ApiError::of_refusal(why, &api.controller.stand))?;
    if tasks.is_empty() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let tasks = tasks.into_iter().map(TaskBody::from).collect();
    Ok(Json(LeasedBody { lease_id, leader_epoch: term.get(), tasks }).into_response())
}

impl From<Task> for TaskBody {
    fn from(task: Task) -> Self {
        let Task { job_id, job_epoch, op, payload, pinned_agent, .. } = task;
        Self { job_id, job_epoch, op, payload, pinned_agent }
    }
}

fn asked(body: LeaseBody) -> Result<LeaseAsked, ApiError> {
    let most = body.max_tasks.unwrap_or(1);
    if !(1..=MOST_TASKS).contains(&most) {
        return Err(ApiError::invalid(format!("max_tasks must be 1 to {MOST_TASKS}")));
    }
    let wait = body.timeout_ms.unwrap_or(0);
    if !(0..=LONGEST_WAIT_MS).contains(&wait) {
        return Err(ApiError::invalid(format!("timeout_ms must be 0 to {LONGEST_WAIT_MS}")));
    }
    Ok(LeaseAsked {
        agent: read::required_name("agent", body.agent)?,
        namespace: read::namespace(body.namespace)?,
        ops: ops(body.capabilities)?,
        most: most as usize,
        wait: Duration::from_millis(wait as u64),
        leases: read::leases(body.leases)?,
    })
}

fn ops(capabilities: Option<Capabilities>) -> Result<Ops, ApiError> {
    let mut ops = match capabilities {
        None => return Ok(Ops::All),
        Some(Capabilities::List(OpNames(ops)) | Capabilities::Object { ops: OpNames(ops) }) => ops,
    };
    if ops.len() > MOST_OPS {
        return Err(ApiError::invalid(format!("capabilities name more than {MOST_OPS} ops")));
    }
    ops = ops.into_iter().map(|op| read::name("an op", op)).collect::<Result<_, _>>()?;
    ops.sort_unstable();
    ops.dedup();
    Ok(Ops::These(Arc::from(ops)))
}

/// Take a job from its agent
///
/// It is queued again, under the next job epoch: whatever the agent reports on it is stale.
#[utoipa::path(
    post,
    path = "/v1/leases/expire",
    request_body(content = ExpireBody, content_type = "application/json"),
    responses(
        (status = 200, description = "No agent has it any more", body = ExpiredBody),
        (status = 400, description = "The request is wrong", body = OtherError),
        (status = 401, description = "A token is asked for"),
        (status = 404, description = "There is no such job", body = OtherError),
        (status = 409, description = "Another node leads, or another term", body = NotDone),
        (status = 413, description = "The request is too large", body = OtherError),
        (status = 422, description = "A field is missing", body = OtherError),
        (status = 503, description = "The database does not answer", body = OtherError),
    )
)]
pub(crate) async fn expire(State(api): Shared, body: Body) -> Result<Json<ExpiredBody>, ApiError> {
    let term = read::require_leader(&api)?;
    let body: ExpireBody = read::object(body)?;
    read::require_epoch(&api, body.leader_epoch, term)?;
    let recall = Recall {
        namespace: read::namespace(body.namespace)?,
        job_id: read::required_name("job_id", body.job_id)?,
        reason: read::name("reason", body.reason.unwrap_or_else(|| "asked".to_owned()))?,
    };
    let before = jobs::find(&api, &recall.namespace, &recall.job_id).await?;
    let recalled = api.controller.desk.recall(recall.clone()).await;
    recalled.map_err(|why| ApiError::of_refusal(why, &api.controller.stand))?;
    let after = jobs::find(&api, &recall.namespace, &recall.job_id).await?;
    let expired = before.state == JobState::Leased && after.job_epoch > before.job_epoch;
    Ok(Json(ExpiredBody { ok: true, expired, job_epoch: after.job_epoch }))
}
