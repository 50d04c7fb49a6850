//! The history of an intent as a piece of a page.

use std::sync::Arc;

use askama::Template;
use axum::{
    extract::{Form, State, rejection::FormRejection},
    http::StatusCode,
    response::{Html, IntoResponse, Response},
};
use serde::Deserialize;

use super::{Api, history_of};
use crate::intent::HistoryView;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Question {
    #[serde(default)]
    intent_id: String,
}

#[derive(Template)]
#[template(path = "history.html")]
struct Fragment {
    history: HistoryView,
}

/// In plain text where there is nothing to show.
pub(super) async fn fragment(
    State(api): State<Arc<Api>>,
    question: Result<Form<Question>, FormRejection>,
) -> Response {
    let id = match &question {
        Ok(Form(question)) => question.intent_id.trim(),
        Err(_) => "",
    };
    if id.is_empty() {
        return (StatusCode::BAD_REQUEST, "intentId is required\n").into_response();
    }
    let history = match history_of(&*api.store, id).await {
        Ok(history) => history,
        Err(error) => return (error.status(), format!("{}\n", error.message())).into_response(),
    };
    match (Fragment { history }).render() {
        Ok(text) => Html(text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
