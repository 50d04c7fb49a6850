//! Refusals, each with a fixed form on the wire.
//!
//! | status | error | what the caller does |
//! | --- | --- | --- |
//! | 409 | `NOT_LEADER` | asks the leader, at `leader_url` if that is known |
//! | 409 | `STALE_EPOCH` | drops the result (`stale` is job or lease), or asks the leader (`stale` is leader) |
//! | 409 | `CONFLICT` | takes another id |
//! | 400, 404, 405, 413, 422 | what is wrong | mends the request |
//! | 503 | `UNAVAILABLE` | tries again |

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tenure_http::{RoleView, Stand};
use utoipa::ToSchema;

use crate::{leader::Refusal, store::StoreError};

/// What a client gets instead of an answer.
#[derive(Debug)]
pub(crate) enum ApiError {
    NotLeader(NotLeaderFields),
    Stale(StaleFields),
    Other { status: StatusCode, error: &'static str, message: String },
}

/// The same fields twice: at the top, and for older clients below `detail`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Detailed<F: Serialize> {
    #[serde(flatten)]
    fields: F,
    detail: F,
}

/// Somebody else must be asked.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct NotLeaderFields {
    /// `NOT_LEADER`.
    error: &'static str,
    /// Who leads, if that is known.
    leader_id: Option<String>,
    /// Where it is reached, if that is known.
    leader_url: Option<String>,
    /// The number of its term, if that is known.
    leader_epoch: Option<i64>,
    /// Who was asked.
    node_id: String,
    /// `STANDBY`.
    role: &'static str,
}

/// What was sent belongs to the past.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct StaleFields {
    /// `STALE_EPOCH`.
    error: &'static str,
    /// `STALE_LEASE`.
    alias: &'static str,
    /// Which part is stale: `job`, `lease` or `leader`.
    stale: &'static str,
    /// The term that the controller is in, or was.
    leader_epoch: i64,
    /// Who was asked.
    node_id: String,
    /// The job's epoch now.
    #[serde(skip_serializing_if = "Option::is_none")]
    job_epoch: Option<i64>,
}

/// A refusal of any other kind.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OtherError {
    /// What is wrong, in a word.
    error: &'static str,
    /// What is wrong, in a sentence.
    message: String,
}

/// Which part of a request belongs to the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stale {
    Job,
    Lease,
    Leader,
}

impl StaleFields {
    pub(super) fn new(stale: Stale, stand: &Stand) -> Self {
        let RoleView { node_id, leader_epoch, .. } = stand.role();
        let stale = match stale {
            Stale::Job => "job",
            Stale::Lease => "lease",
            Stale::Leader => "leader",
        };
        Self {
            error: "STALE_EPOCH",
            alias: "STALE_LEASE",
            stale,
            leader_epoch,
            node_id,
            job_epoch: None,
        }
    }

    pub(super) fn of_job(self, job_epoch: i64) -> Self {
        Self { job_epoch: Some(job_epoch), ..self }
    }
}

impl ApiError {
    fn other(status: StatusCode, error: &'static str, message: impl Into<String>) -> Self {
        Self::Other { status, error, message: message.into() }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::other(StatusCode::BAD_REQUEST, "INVALID_REQUEST", message)
    }

    pub(super) fn missing(field: &str) -> Self {
        let message = format!("{field} is required");
        Self::other(StatusCode::UNPROCESSABLE_ENTITY, "MISSING_FIELD", message)
    }

    pub(super) fn out_of_range(message: impl Into<String>) -> Self {
        Self::other(StatusCode::UNPROCESSABLE_ENTITY, "OUT_OF_RANGE", message)
    }

    pub(super) fn bad_status(status: &str) -> Self {
        let message = format!("{status:?} is not succeeded, failed or given_back");
        Self::other(StatusCode::BAD_REQUEST, "BAD_STATUS", message)
    }

    pub(super) fn too_large(what: &str) -> Self {
        let message = format!("{what} is too large");
        Self::other(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", message)
    }

    pub(super) fn no_such_job(job_id: &str) -> Self {
        let message = format!("there is no job {job_id:?} in this namespace");
        Self::other(StatusCode::NOT_FOUND, "NOT_FOUND", message)
    }

    pub(super) fn no_such_path() -> Self {
        Self::other(StatusCode::NOT_FOUND, "NOT_FOUND", "there is nothing at this path")
    }

    pub(super) fn method_not_allowed() -> Self {
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Self::other(status, "METHOD_NOT_ALLOWED", "this path takes another method")
    }

    pub(super) fn conflict(job_id: &str) -> Self {
        let message = format!("the job {job_id:?} exists with other content");
        Self::other(StatusCode::CONFLICT, "CONFLICT", message)
    }

    pub(super) fn crowded() -> Self {
        let message = "too many wait here already";
        Self::other(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", message)
    }

    pub(super) fn unavailable() -> Self {
        let message = "the database does not answer";
        Self::other(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", message)
    }

    pub(super) fn of_store(error: &StoreError) -> Self {
        let sql_error = tenure_database::error::chain(error);
        tracing::error!(target: "tenure", sql_error, "controller_read_failed");
        Self::unavailable()
    }

    pub(super) fn stale(fields: StaleFields) -> Self {
        Self::Stale(fields)
    }

    /// Somebody else leads, if it is known who. A node that hands over, or has just lost its term, names nobody.
    pub(super) fn not_leader(stand: &Stand) -> Self {
        let role = stand.role();
        let is_other = role.leader_id.as_ref().is_some_and(|id| *id != role.node_id);
        let is_known = is_other && role.role == "STANDBY";
        let epoch = Some(role.leader_epoch).filter(|epoch| *epoch > 0 && role.role == "STANDBY");
        Self::NotLeader(NotLeaderFields {
            error: "NOT_LEADER",
            leader_id: role.leader_id.filter(|_| is_known),
            leader_url: role.leader_url.filter(|_| is_known),
            leader_epoch: epoch,
            node_id: role.node_id,
            role: "STANDBY",
        })
    }

    pub(super) fn of_refusal(refusal: Refusal, stand: &Stand) -> Self {
        match refusal {
            Refusal::NotLeader => Self::not_leader(stand),
            Refusal::Fenced(_) => Self::Stale(StaleFields::new(Stale::Leader, stand)),
            Refusal::Unavailable => Self::unavailable(),
            Refusal::Crowded => Self::crowded(),
        }
    }

    /// What it is in an answer that has others beside it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::NotLeader(fields) => fields.error,
            Self::Stale(fields) => fields.error,
            Self::Other { error, .. } => error,
        }
    }

    pub(super) fn response(self) -> Response {
        match self {
            Self::NotLeader(fields) => conflict(fields),
            Self::Stale(fields) => conflict(fields),
            Self::Other { status, error, message } => {
                let mut response = (status, Json(OtherError { error, message })).into_response();
                if status == StatusCode::SERVICE_UNAVAILABLE {
                    let soon = HeaderValue::from_static("1");
                    response.headers_mut().insert(header::RETRY_AFTER, soon);
                }
                response
            }
        }
    }
}

fn conflict<F: Serialize + Clone>(fields: F) -> Response {
    let body = Detailed { detail: fields.clone(), fields };
    (StatusCode::CONFLICT, Json(body)).into_response()
}
