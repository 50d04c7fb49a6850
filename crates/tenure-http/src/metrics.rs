//! Metrics, for those who elect nobody too.

use std::sync::Arc;

use axum::{
    Router,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use prometheus_client::registry::Registry;

const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// `/healthz` and `/metrics` of a process without an election.
pub fn plain_routes(metrics: Arc<Registry>) -> Router {
    let page = get(async move || page(&metrics));
    Router::new().route("/healthz", get(async || "ok")).route("/metrics", page)
}

pub(crate) fn page(metrics: &Registry) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, metrics) {
        Ok(()) => ([(header::CONTENT_TYPE, METRICS)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
