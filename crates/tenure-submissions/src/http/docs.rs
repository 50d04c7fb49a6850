//! The API described, for programs and for people.

use std::sync::Arc;

use askama::Template;
use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{Html, IntoResponse, Response},
};
use serde_json::Value;
use utoipa::{
    Modify, OpenApi,
    openapi::{
        ObjectBuilder, RefOr, Schema, Type,
        security::{Http, HttpAuthScheme, SecurityScheme},
    },
};

#[derive(OpenApi)]
#[openapi(
    info(title = "Tenure submissions", description = "Hand submissions to gateways, each executed once."),
    paths(super::submit, super::intent, super::history),
    modifiers(&Bearer, &AnyInteger),
    security(("bearer" = []), ())
)]
struct Description;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        openapi.components.get_or_insert_default().add_security_scheme("bearer", scheme);
    }
}

/// However many digits it has: what is too long to wait is cut.
struct AnyInteger;

impl Modify for AnyInteger {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let integer = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).build();
        let calls = openapi.paths.paths.values_mut().filter_map(|path| path.post.as_mut());
        for parameter in calls.filter_map(|call| call.parameters.as_mut()).flatten() {
            if let RefOr::T(parameter) = parameter {
                parameter.schema = Some(RefOr::T(Schema::Object(integer.clone())));
            }
        }
    }
}

#[derive(Template)]
#[template(path = "docs.html")]
struct Page {
    calls: Vec<Call>,
}

struct Call {
    method: String,
    path: String,
    summary: String,
    description: String,
    parameters: Vec<(String, String)>,
    answers: Vec<(String, String)>,
}

/// The description; with the names of the targets, where whoever reads it may know them.
pub(super) fn describe<'t>(targets: Option<impl Iterator<Item = &'t str>>) -> Arc<Value> {
    let mut described = serde_json::to_value(Description::openapi()).unwrap_or_default();
    let target = "/components/schemas/RequestBody/properties/submissionTarget";
    if let (Some(targets), Some(target)) = (targets, described.pointer_mut(target)) {
        target["enum"] = targets.collect();
    }
    Arc::new(described)
}

pub(super) async fn openapi(State(described): State<Arc<Value>>) -> Json<Value> {
    Json((*described).clone())
}

pub(super) async fn page(State(described): State<Arc<Value>>) -> Response {
    match (Page { calls: calls(&described) }).render() {
        Ok(text) => {
            let policy = "default-src 'none'; style-src 'unsafe-inline'";
            ([(header::CONTENT_SECURITY_POLICY, policy)], Html(text)).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// The page is made from the same description that programs get.
fn calls(described: &Value) -> Vec<Call> {
    let mut calls = Vec::new();
    for (path, methods) in described["paths"].as_object().into_iter().flatten() {
        for (method, call) in methods.as_object().into_iter().flatten() {
            let parameters = call["parameters"].as_array().into_iter().flatten();
            let answers = call["responses"].as_object().into_iter().flatten();
            calls.push(Call {
                method: method.to_uppercase(),
                path: path.clone(),
                summary: text(&call["summary"]),
                description: text(&call["description"]),
                parameters: parameters
                    .map(|one| (text(&one["name"]), text(&one["description"])))
                    .collect(),
                answers: answers
                    .map(|(status, answer)| (status.clone(), text(&answer["description"])))
                    .collect(),
            });
        }
    }
    calls
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
