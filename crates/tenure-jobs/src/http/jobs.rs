//! Jobs: submitted, listed, shown.

use std::time::Duration;

use axum::{
    Json,
    extract::{Path, RawQuery, State},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{
    Shared,
    described::{NameText, NamespaceParam, NotSubmitted, StateName},
    error::{ApiError, OtherError},
    read::{self, Body, Name, Query},
};
use crate::{
    job::{DEFAULT_PRIORITY, Filter, HIGHEST_PRIORITY, JobView, Limits, NewJob, State as JobState},
    leader::Refusal,
    round::Submitted,
};

mod content;

/// How many jobs are listed unless it is said otherwise, and at most.
const USUAL: i64 = 100;
const MOST: i64 = 1_000;
/// What limits a job may have.
const MOST_ATTEMPTS: i64 = 1_000;
const LONGEST_RETRY_S: i64 = 3_600;
const LONGEST_RUN_S: i64 = 7 * 24 * 3_600;
const LATEST_DEADLINE_S: i64 = 365 * 24 * 3_600;

#[derive(Deserialize, ToSchema)]
pub(crate) struct SubmitBody {
    /// Where it belongs. Default: `default`.
    #[schema(value_type = Option<NameText>)]
    namespace: Option<String>,
    /// What is to be done.
    #[schema(value_type = NameText)]
    op: Option<String>,
    /// With what.
    #[schema(value_type = Value, required = true)]
    #[serde(default, deserialize_with = "read::given")]
    payload: Option<Box<RawValue>>,
    /// Under which id. The same job again is the same job. Default: a new one. `id` is understood too.
    #[schema(value_type = Option<NameText>)]
    #[serde(alias = "id")]
    job_id: Option<String>,
    /// 0 to 3, the highest first. Default: 1.
    #[schema(minimum = 0, maximum = 3)]
    #[serde(default, deserialize_with = "read::whole")]
    priority: Option<i64>,
    /// Who may do it.
    constraints: Option<Constraints>,
    /// So many leases that were lost end it as failed. What was given back or recalled does not count. Default: never.
    #[schema(minimum = 1, maximum = 1_000)]
    #[serde(default, deserialize_with = "read::whole")]
    max_lost_leases: Option<i64>,
    /// So many failures end it as failed. Default: 1.
    #[schema(minimum = 1, maximum = 1_000)]
    #[serde(default, deserialize_with = "read::whole")]
    max_failures: Option<i64>,
    /// How many seconds after its first failure it is tried again; twice as many after each that follows, up to an
    /// hour. Default: 1.
    #[schema(minimum = 0, maximum = 3_600)]
    #[serde(default, deserialize_with = "read::whole")]
    retry_after_s: Option<i64>,
    /// How many seconds one run may take, whatever its agent says; then its lease is lost. Default: no limit.
    #[schema(minimum = 1, maximum = 604_800)]
    #[serde(default, deserialize_with = "read::whole")]
    timeout_s: Option<i64>,
    /// In how many seconds it must have ended; then it has failed. Default: no limit.
    #[schema(minimum = 1, maximum = 31_536_000)]
    #[serde(default, deserialize_with = "read::whole")]
    deadline_s: Option<i64>,
    /// The term that the caller believes the leader to be in.
    #[serde(default, deserialize_with = "read::whole")]
    leader_epoch: Option<i64>,
}

#[derive(Deserialize, ToSchema)]
struct Constraints {
    /// The only agent that gets it.
    #[schema(value_type = Option<NameText>)]
    pinned_agent: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct SubmittedBody {
    ok: bool,
    job_id: String,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct JobsBody {
    jobs: Vec<JobView>,
}

/// Which jobs.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "only described")]
struct FilterParams {
    /// What they are at the moment.
    #[param(required = false, nullable = false)]
    state: StateName,
    /// Who works on them, or did.
    #[param(required = false, nullable = false)]
    agent: NameText,
    /// What is to be done.
    #[param(required = false, nullable = false)]
    op: NameText,
    /// Submitted then or later.
    #[param(required = false, nullable = false, value_type = String, format = DateTime)]
    since: Timestamp,
    /// How many, 1000 at most: what is above counts as that. Default: 100.
    #[param(required = false, nullable = false, minimum = 1)]
    limit: i64,
}

/// Submit a job
///
/// A job id that is used again for the same job is the same job; for another one it is a conflict.
#[utoipa::path(
    post,
    path = "/v1/jobs",
    request_body(content = SubmitBody, content_type = "application/json"),
    responses(
        (status = 200, description = "It is stored, and durable", body = SubmittedBody),
        (status = 400, description = "The request is wrong", body = OtherError),
        (status = 401, description = "A token is asked for"),
        (status = 409, description = "Another node leads, or another term, or the id has another job",
            body = NotSubmitted),
        (status = 413, description = "The request is too large", body = OtherError),
        (status = 422, description = "A field is missing, or a number out of range", body = OtherError),
        (status = 503, description = "The database does not answer", body = OtherError),
    )
)]
pub(crate) async fn submit(
    State(api): Shared,
    body: Body,
) -> Result<Json<SubmittedBody>, ApiError> {
    let term = read::require_leader(&api)?;
    let body: SubmitBody = read::object(body)?;
    read::require_epoch(&api, body.leader_epoch, term)?;
    let job = job(body)?;
    let job_id = job.job_id.clone();
    let submitted = api.controller.desk.submit(job).await;
    match submitted.map_err(|why: Refusal| ApiError::of_refusal(why, &api.controller.stand))? {
        Submitted::Stored => Ok(Json(SubmittedBody { ok: true, job_id })),
        Submitted::Conflict => Err(ApiError::conflict(&job_id)),
        Submitted::Unknown => Err(ApiError::unavailable()),
    }
}

fn job(body: SubmitBody) -> Result<NewJob, ApiError> {
    let limits = limits(&body)?;
    let priority = read::within("priority", body.priority, 0..=HIGHEST_PRIORITY.into())?;
    let op = read::required_name("op", body.op)?;
    let payload = body.payload.ok_or_else(|| ApiError::invalid("payload is required"))?;
    let pinned_agent = body.constraints.and_then(|constraints| constraints.pinned_agent);
    let mut job = NewJob {
        namespace: read::namespace(body.namespace)?,
        job_id: read::name("job_id", body.job_id.unwrap_or_else(|| Uuid::new_v4().to_string()))?,
        op,
        payload: read::value("payload", Some(payload))?,
        priority: priority.map_or(DEFAULT_PRIORITY, |priority| priority as i16),
        pinned_agent: read::optional_name("pinned_agent", pinned_agent)?,
        limits,
        content_hash: [0; 32],
    };
    job.content_hash = content::hash(&job);
    Ok(job)
}

fn limits(body: &SubmitBody) -> Result<Limits, ApiError> {
    let count = |what, given| {
        let given = read::within(what, given, 1..=MOST_ATTEMPTS)?;
        Ok::<_, ApiError>(given.map(|given| given as i32))
    };
    let seconds = |what, given, bounds| {
        let given = read::within(what, given, bounds)?;
        Ok::<_, ApiError>(given.map(|given| Duration::from_secs(given as u64)))
    };
    Ok(Limits {
        lost_leases: count("max_lost_leases", body.max_lost_leases)?,
        failures: count("max_failures", body.max_failures)?,
        retry_after: seconds("retry_after_s", body.retry_after_s, 0..=LONGEST_RETRY_S)?,
        run: seconds("timeout_s", body.timeout_s, 1..=LONGEST_RUN_S)?,
        deadline: seconds("deadline_s", body.deadline_s, 1..=LATEST_DEADLINE_S)?,
    })
}

/// List jobs, the newest first
#[utoipa::path(
    get,
    path = "/v1/jobs",
    params(NamespaceParam, FilterParams),
    responses(
        (status = 200, description = "The jobs", body = JobsBody),
        (status = 400, description = "The request is wrong", body = OtherError),
        (status = 401, description = "A token is asked for"),
        (status = 422, description = "A number is out of range", body = OtherError),
        (status = 503, description = "The database does not answer", body = OtherError),
    )
)]
pub(crate) async fn list(State(api): Shared, query: RawQuery) -> Result<Json<JobsBody>, ApiError> {
    let filter = filter(&Query::read(query))?;
    let jobs = api.controller.store.jobs(&filter).await;
    Ok(Json(JobsBody { jobs: jobs.map_err(|error| ApiError::of_store(&error))? }))
}

fn filter(query: &Query) -> Result<Filter, ApiError> {
    let state = query.get("state")?.map(|state| {
        let refused = || ApiError::invalid("state must be queued, leased, succeeded or failed");
        JobState::named(&state).ok_or_else(refused)
    });
    let since = query.get("since")?.map(|since| {
        let refused = |_| ApiError::invalid("since must be a moment like 2026-01-31T12:00:00Z");
        since.parse::<Timestamp>().map_err(refused)
    });
    let most = query.number("limit")?.unwrap_or(USUAL);
    if most < 1 {
        return Err(ApiError::out_of_range("limit must be at least 1"));
    }
    Ok(Filter {
        namespace: query.namespace()?,
        state: state.transpose()?,
        agent: read::optional_name("agent", query.get("agent")?)?,
        op: read::optional_name("op", query.get("op")?)?,
        since: since.transpose()?,
        most: most.min(MOST),
    })
}

/// Show a job
#[utoipa::path(
    get,
    path = "/v1/jobs/{job_id}",
    params(("job_id" = String, Path, description = "Its id"), NamespaceParam),
    responses(
        (status = 200, description = "The job", body = JobView),
        (status = 400, description = "The request is wrong", body = OtherError),
        (status = 401, description = "A token is asked for"),
        (status = 404, description = "There is none", body = OtherError),
        (status = 503, description = "The database does not answer", body = OtherError),
    )
)]
pub(crate) async fn show(
    State(api): Shared,
    name: Name,
    query: RawQuery,
) -> Result<Json<JobView>, ApiError> {
    let namespace = Query::read(query).namespace()?;
    let Path(job_id) = name.map_err(|_| ApiError::no_such_job(""))?;
    // What cannot be a name is none, and the database need not be asked.
    let job_id = read::name("job_id", job_id).map_err(|_| ApiError::no_such_job(""))?;
    find(&api, &namespace, &job_id).await.map(Json)
}

pub(super) async fn find(
    api: &super::Api,
    namespace: &str,
    job_id: &str,
) -> Result<JobView, ApiError> {
    let found = api.controller.store.job(namespace, job_id).await;
    found.map_err(|error| ApiError::of_store(&error))?.ok_or_else(|| ApiError::no_such_job(job_id))
}
