//! The page for people: what this node is, and who leads.

use std::time::Duration;

use askama::Template;
use axum::{
    http::{StatusCode, header},
    response::{Html, IntoResponse, Response},
};

use crate::node::{Node, RoleView};

#[derive(Template)]
#[template(path = "status.html")]
struct Page<'n> {
    title: &'n str,
    scope: &'n str,
    role: &'n RoleView,
    /// Seconds until the gate shuts unless the term is renewed.
    left: Option<String>,
    facts: &'n [(String, String)],
    version: &'static str,
}

/// Nothing is loaded from anywhere, and no script runs.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

pub(crate) fn page(node: &Node, scope: &str, role: &RoleView, left: Option<Duration>) -> Response {
    let page = Page {
        title: &node.title,
        scope,
        role,
        left: left.map(|left| format!("{:.1}", left.as_secs_f64())),
        facts: &node.facts,
        version: env!("CARGO_PKG_VERSION"),
    };
    match page.render() {
        Ok(text) => ([(header::CONTENT_SECURITY_POLICY, POLICY)], Html(text)).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
