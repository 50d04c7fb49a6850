//! Refusals, each with a fixed form on the wire.

use axum::{
    Json,
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Value, json};
use tenure_http::{Guard, Refusal};
use utoipa::ToSchema;

use crate::store::StoreError;

/// What a client gets instead of an answer.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    body: ErrorBody,
}

/// A refusal.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ErrorBody {
    error: Refused,
}

#[derive(Debug, Serialize, ToSchema)]
struct Refused {
    /// One of `unauthorized`, `invalid_request`, `not_found`, `idempotency_conflict`, `method_not_allowed`,
    /// `internal_error`.
    code: &'static str,
    message: String,
    /// What it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    details: Option<Value>,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: &str, details: Option<Value>) -> Self {
        let error = Refused { code, message: message.to_owned(), details };
        Self { status, body: ErrorBody { error } }
    }

    pub(super) fn invalid(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message, None)
    }

    pub(super) fn invalid_body() -> Self {
        Self::invalid("invalid request body")
    }

    pub(super) fn of_body(status: StatusCode) -> Self {
        match status {
            StatusCode::PAYLOAD_TOO_LARGE => {
                Self::new(status, "invalid_request", "request body is too large", None)
            }
            _ => Self::invalid_body(),
        }
    }

    pub(super) fn unknown_target(target: &str) -> Self {
        let details = json!({ "submissionTarget": target });
        let message = "unknown submissionTarget";
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message, Some(details))
    }

    pub(super) fn not_found(id: &str) -> Self {
        let details = json!({ "intentId": id });
        Self::new(StatusCode::NOT_FOUND, "not_found", "intent not found", Some(details))
    }

    pub(super) fn no_such_path() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "there is nothing at this path", None)
    }

    pub(super) fn conflict(id: &str, existing: &str, incoming: &str) -> Self {
        let details =
            json!({ "intentId": id, "existingTarget": existing, "incomingTarget": incoming });
        let message = "intentId already exists with different payload";
        Self::new(StatusCode::CONFLICT, "idempotency_conflict", message, Some(details))
    }

    pub(super) fn method_not_allowed() -> Self {
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Self::new(status, "method_not_allowed", "method not allowed", None)
    }

    pub(super) fn internal() -> Self {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Self::new(status, "internal_error", "the database does not answer", None)
    }

    pub(super) fn of_store(error: &StoreError) -> Self {
        let sql_error = tenure_database::error::chain(error);
        tracing::error!(target: "tenure", sql_error, "submission_read_failed");
        Self::internal()
    }

    fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "a bearer token is required", None)
    }

    fn forbidden(why: Refusal) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", why.message(), None)
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn message(&self) -> &str {
        &self.body.error.message
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(self.body)).into_response()
    }
}

/// Before every other check.
pub(super) async fn keep_out(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    match guard.check(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(Refusal::NoToken) => {
            ([(header::WWW_AUTHENTICATE, "Bearer")], ApiError::unauthorized()).into_response()
        }
        Err(refusal) => ApiError::forbidden(refusal).into_response(),
    }
}
