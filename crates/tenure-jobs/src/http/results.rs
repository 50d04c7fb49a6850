//! Results: one, or all of a lease at once.

use std::collections::HashSet;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    Api, LARGEST_VALUE, Shared,
    described::{NameText, NotDone, RefusedText, StatusName},
    error::{ApiError, OtherError, Stale, StaleFields},
    read::{self, Body},
};
use crate::round::{JobError, Reported, Status, Verdict};

/// How many results at once.
const MOST: usize = 64;

/// `results`, or the fields of one.
#[derive(Deserialize)]
pub(crate) struct ReportBody {
    lease_id: Option<String>,
    agent: Option<String>,
    namespace: Option<String>,
    #[serde(default, deserialize_with = "read::whole")]
    leader_epoch: Option<i64>,
    results: Option<Vec<ResultBody>>,
    job_id: Option<String>,
    #[serde(default, deserialize_with = "read::whole")]
    job_epoch: Option<i64>,
    status: Option<String>,
    result: Option<Box<RawValue>>,
    error: Option<Box<RawValue>>,
}

/// One result, or many of one lease.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only described: raw values cannot be read through it")]
pub(crate) enum ReportText {
    One(OneReport),
    Many(ManyReports),
}

#[derive(Deserialize, ToSchema)]
#[allow(dead_code, reason = "only described")]
pub(crate) struct OneReport {
    #[serde(flatten)]
    under: Under,
    #[serde(flatten)]
    result: ResultBody,
}

#[derive(Deserialize, ToSchema)]
#[allow(dead_code, reason = "only described")]
pub(crate) struct ManyReports {
    #[serde(flatten)]
    under: Under,
    /// What came of each.
    #[schema(min_items = 1, max_items = 64)]
    results: Vec<ResultBody>,
}

#[derive(Deserialize, ToSchema)]
#[allow(dead_code, reason = "only described")]
struct Under {
    /// Under which lease.
    #[schema(value_type = NameText)]
    lease_id: String,
    /// By whom. If it is said, the lease must be that agent's.
    #[schema(value_type = Option<NameText>)]
    agent: Option<String>,
    /// Where the jobs are. Default: where the lease was granted.
    #[schema(value_type = Option<NameText>)]
    namespace: Option<String>,
    /// The term that the caller believes the leader to be in.
    leader_epoch: Option<i64>,
}

#[derive(Deserialize, ToSchema)]
struct ResultBody {
    /// Which job.
    #[schema(value_type = NameText)]
    job_id: Option<String>,
    /// Which epoch of it.
    #[schema(value_type = i64, required = true)]
    #[serde(default, deserialize_with = "read::whole")]
    job_epoch: Option<i64>,
    #[schema(value_type = StatusName)]
    status: Option<String>,
    /// What came of it.
    #[schema(value_type = Option<Value>)]
    result: Option<Box<RawValue>>,
    /// Why it failed: a text, or any other JSON.
    #[schema(value_type = Option<Value>)]
    error: Option<Box<RawValue>>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct JudgedBody {
    /// Whether all were accepted.
    ok: bool,
    /// What became of each of many, in their order.
    #[serde(skip_serializing_if = "Option::is_none")]
    results: Option<Vec<Judged>>,
}

#[derive(Serialize, ToSchema)]
struct Judged {
    job_id: String,
    ok: bool,
    #[serde(flatten)]
    #[schema(value_type = RefusedText)]
    refused: Option<Refused>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Refused {
    Stale(StaleFields),
    Other { error: &'static str },
}

/// Report results
///
/// One, or with `results` many of one lease. The same result again is accepted again.
#[utoipa::path(
    post,
    path = "/v1/results",
    request_body(content = ReportText, content_type = "application/json"),
    responses(
        (status = 200, description = "It is recorded; or, of many, what became of each", body = JudgedBody),
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
pub(crate) async fn report(State(api): Shared, body: Body) -> Result<Response, ApiError> {
    let term = read::require_term(&api)?;
    let mut body: ReportBody = read::object(body)?;
    read::require_epoch(&api, body.leader_epoch, term)?;
    let many = body.results.take();
    let is_one = many.is_none();
    let results = many.unwrap_or_else(|| vec![body.take_one()]);
    let reported = reported(body, results)?;
    let ids: Vec<_> = reported.iter().map(|one| one.job_id.clone()).collect();
    let judged = api.controller.desk.report(reported).await;
    let verdicts = judged.map_err(|why| ApiError::of_refusal(why, &api.controller.stand))?;
    let judged: Vec<_> = ids.into_iter().zip(verdicts).collect();
    match judged.as_slice() {
        [(job_id, verdict)] if is_one => one(&api, job_id, *verdict),
        _ => Ok(all(&api, judged)),
    }
}

impl ReportBody {
    fn take_one(&mut self) -> ResultBody {
        ResultBody {
            job_id: self.job_id.take(),
            job_epoch: self.job_epoch.take(),
            status: self.status.take(),
            result: self.result.take(),
            error: self.error.take(),
        }
    }
}

fn reported(body: ReportBody, results: Vec<ResultBody>) -> Result<Vec<Reported>, ApiError> {
    if results.is_empty() || results.len() > MOST {
        return Err(ApiError::invalid(format!("results must be 1 to {MOST}")));
    }
    let lease_id = read::required_name("lease_id", body.lease_id)?;
    let agent = read::optional_name("agent", body.agent)?;
    let namespace = read::optional_name("namespace", body.namespace)?;
    let mut seen = HashSet::new();
    let mut reported = Vec::with_capacity(results.len());
    for one in results {
        let one = Reported {
            namespace: namespace.clone(),
            lease_id: lease_id.clone(),
            agent: agent.clone(),
            job_epoch: one.job_epoch.ok_or_else(|| ApiError::missing("job_epoch"))?,
            job_id: read::required_name("job_id", one.job_id)?,
            status: status(one.status)?,
            result: one.result.map(|result| read::value("result", Some(result))).transpose()?,
            error: one.error.map(error).transpose()?.flatten(),
        };
        if !seen.insert(one.job_id.clone()) {
            return Err(ApiError::invalid(format!("the job {:?} is there twice", one.job_id)));
        }
        reported.push(one);
    }
    Ok(reported)
}

fn status(given: Option<String>) -> Result<Status, ApiError> {
    let given = given.ok_or_else(|| ApiError::missing("status"))?;
    Status::named(&given).ok_or_else(|| ApiError::bad_status(&given))
}

/// What was sent, as it was sent. No database takes a NUL in a text.
fn error(given: Box<RawValue>) -> Result<Option<JobError>, ApiError> {
    if given.get().len() > LARGEST_VALUE {
        return Err(ApiError::too_large("error"));
    }
    Ok(match given.get() {
        "null" => None,
        text if text.starts_with('"') => {
            let text: String = serde_json::from_str(text)
                .map_err(|error| ApiError::invalid(format!("error: {error}")))?;
            Some(JobError::Text(text.replace('\0', "\u{fffd}")))
        }
        _ => Some(JobError::Value(given)),
    })
}

fn one(api: &Api, job_id: &str, verdict: Verdict) -> Result<Response, ApiError> {
    match refused(api, job_id, verdict) {
        None => Ok(Json(JudgedBody { ok: true, results: None }).into_response()),
        Some(Refused::Stale(fields)) => Err(ApiError::stale(fields)),
        Some(Refused::Other { .. }) => Err(ApiError::no_such_job(job_id)),
    }
}

fn all(api: &Api, judged: Vec<(String, Verdict)>) -> Response {
    let results: Vec<_> = judged
        .into_iter()
        .map(|(job_id, verdict)| {
            let refused = refused(api, &job_id, verdict);
            Judged { job_id, ok: refused.is_none(), refused }
        })
        .collect();
    let ok = results.iter().all(|judged| judged.ok);
    Json(JudgedBody { ok, results: Some(results) }).into_response()
}

fn refused(api: &Api, job_id: &str, verdict: Verdict) -> Option<Refused> {
    let stale = |stale, job_epoch| {
        let fields = StaleFields::new(stale, &api.controller.stand).of_job(job_epoch);
        Some(Refused::Stale(fields))
    };
    match verdict {
        Verdict::Accepted | Verdict::Duplicate => None,
        Verdict::NotFound => Some(Refused::Other { error: ApiError::no_such_job(job_id).name() }),
        Verdict::StaleJob { job_epoch } => stale(Stale::Job, job_epoch),
        Verdict::StaleLease { job_epoch } => stale(Stale::Lease, job_epoch),
    }
}
