//! Leases: jobs for an agent, and jobs taken from one.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use utoipa::ToSchema;

use super::{
    Shared,
    described::{NameText, NotDone},
    error::{ApiError, OtherError, Stale, StaleFields},
    read::{self, Body},
};
use crate::{
    leader::{LeaseAsked, Leased},
    queue::Ops,
    round::{Recall, Recalled, Task},
};

/// How many jobs at once, and how long to wait for them.
const MOST_TASKS: i64 = 64;
const LONGEST_WAIT_MS: i64 = 120_000;
/// How long a lease may be asked for.
const LONGEST_LEASE_S: i64 = 120;
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
    /// What it can do: a list of ops, or an object with `ops`, which is a list or says of each whether it can. `*`, or
    /// none at all, is whatever comes. Default: whatever comes.
    capabilities: Option<Capabilities>,
    /// How many jobs at most, 1 to 64. Default: 1.
    #[schema(minimum = 1, maximum = 64)]
    #[serde(default, deserialize_with = "read::whole")]
    max_tasks: Option<i64>,
    /// How long to wait for the first, 0 to 120000. Default: 0.
    #[schema(minimum = 0, maximum = 120_000)]
    #[serde(default, deserialize_with = "read::whole")]
    timeout_ms: Option<i64>,
    /// For how many seconds the jobs are its own unless it is heard, 1 to 120. Default: the controller's job lease.
    #[schema(minimum = 1, maximum = 120)]
    #[serde(default, deserialize_with = "read::whole")]
    lease_s: Option<i64>,
    /// The same in milliseconds.
    #[schema(minimum = 1, maximum = 120_000)]
    #[serde(default, deserialize_with = "read::whole")]
    lease_ttl_ms: Option<i64>,
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
    Object { ops: Option<ObjectOps> },
}

#[derive(Deserialize, ToSchema)]
#[schema(value_type = Vec<NameText>, max_items = 1_000)]
struct OpNames(Vec<String>);

/// A list, or what is said of each.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
enum ObjectOps {
    List(OpNames),
    #[schema(value_type = Object)]
    Each(BTreeMap<String, Value>),
}

impl Capabilities {
    /// The names; `None` for whatever comes.
    fn names(self) -> Option<Vec<String>> {
        let ops = match self {
            Self::List(OpNames(ops))
            | Self::Object { ops: Some(ObjectOps::List(OpNames(ops))) } => {
                Some(ops).filter(|ops| !ops.is_empty())?
            }
            Self::Object { ops: Some(ObjectOps::Each(ops)) } => {
                let can = |said: &Value| !matches!(said, Value::Bool(false) | Value::Null);
                ops.into_iter().filter(|(_, said)| can(said)).map(|(op, _)| op).collect()
            }
            Self::Object { ops: None } => return None,
        };
        Some(ops).filter(|ops| ops.iter().all(|op| op != "*"))
    }
}

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
    /// Only under this epoch of the job.
    #[serde(default, deserialize_with = "read::whole")]
    job_epoch: Option<i64>,
    /// Only under this lease.
    #[schema(value_type = Option<NameText>)]
    lease_id: Option<String>,
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
    let most = read::within("max_tasks", body.max_tasks, 1..=MOST_TASKS)?.unwrap_or(1);
    let wait = read::within("timeout_ms", body.timeout_ms, 0..=LONGEST_WAIT_MS)?.unwrap_or(0);
    let lease_s = read::within("lease_s", body.lease_s, 1..=LONGEST_LEASE_S)?;
    let lease_ms = read::within("lease_ttl_ms", body.lease_ttl_ms, 1..=LONGEST_LEASE_S * 1_000)?;
    let lasts = lease_ms.or(lease_s.map(|seconds| seconds * 1_000));
    Ok(LeaseAsked {
        agent: read::required_name("agent", body.agent)?,
        namespace: read::namespace(body.namespace)?,
        ops: ops(body.capabilities)?,
        most: most as usize,
        wait: Duration::from_millis(wait as u64),
        lasts: lasts.map(|lasts| Duration::from_millis(lasts as u64)),
        leases: read::leases(body.leases)?,
    })
}

fn ops(capabilities: Option<Capabilities>) -> Result<Ops, ApiError> {
    let named = capabilities.and_then(Capabilities::names);
    let Some(mut ops) = named else { return Ok(Ops::All) };
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
/// It is queued again, under the next job epoch: whatever the agent reports on it is stale. Whoever names the epoch or
/// the lease that it means takes no other.
#[utoipa::path(
    post,
    path = "/v1/leases/expire",
    request_body(content = ExpireBody, content_type = "application/json"),
    responses(
        (status = 200, description = "No agent has it any more", body = ExpiredBody),
        (status = 400, description = "The request is wrong", body = OtherError),
        (status = 401, description = "A token is asked for"),
        (status = 404, description = "There is no such job", body = OtherError),
        (status = 409, description = "Job, lease or leader are of the past, or another node leads",
            body = NotDone),
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
        job_epoch: body.job_epoch,
        lease_id: read::optional_name("lease_id", body.lease_id)?,
        reason: read::name("reason", body.reason.unwrap_or_else(|| "asked".to_owned()))?,
    };
    let (job_id, stand) = (recall.job_id.clone(), &api.controller.stand);
    let recalled = api.controller.desk.recall(recall).await;
    let stale = |what, job_epoch| ApiError::stale(StaleFields::new(what, stand).of_job(job_epoch));
    let (expired, job_epoch) = match recalled.map_err(|why| ApiError::of_refusal(why, stand))? {
        Recalled::Back { job_epoch } => (true, job_epoch),
        Recalled::NotLeased { job_epoch } => (false, job_epoch),
        Recalled::NotFound => return Err(ApiError::no_such_job(&job_id)),
        Recalled::StaleJob { job_epoch } => return Err(stale(Stale::Job, job_epoch)),
        Recalled::StaleLease { job_epoch } => return Err(stale(Stale::Lease, job_epoch)),
    };
    Ok(Json(ExpiredBody { ok: true, expired, job_epoch }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(capabilities: &str) -> Ops {
        ops(serde_json::from_str(capabilities).unwrap()).unwrap()
    }

    #[test]
    fn capabilities_are_understood_in_all_their_forms() {
        for whatever in ["null", "[]", r#"["*"]"#, r#"["a", "*"]"#, "{}", r#"{"ops": []}"#] {
            assert_eq!(read(whatever), Ops::All, "{whatever}");
        }
        for two in [
            r#"["b", "a", "b"]"#,
            r#"{"ops": ["a", "b"]}"#,
            r#"{"ops": {"a": true, "b": {"version": 1}, "c": false, "d": null}}"#,
        ] {
            let both = ["a", "b"].map(str::to_owned);
            assert_eq!(read(two), Ops::These(Arc::from(both)), "{two}");
        }
        assert_eq!(
            read(r#"{"ops": {"a": false}}"#),
            Ops::These(Arc::from([])),
            "it can do nothing"
        );
    }
}
