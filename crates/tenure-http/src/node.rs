//! What an election shows of itself, and how it is drained.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    middleware,
    response::Response,
    routing::{get, post},
};
use prometheus_client::registry::Registry;
use serde::Serialize;
use tenure::{
    Epoch, LeaderGate, Role,
    election::{Handle, Leadership},
};
use tokio::sync::watch;

use crate::{
    guard::{self, Guard},
    metrics, status,
};

/// What is shown of one node.
#[derive(Clone)]
pub struct Node {
    /// The election.
    pub election: Handle,
    /// What it does, in a few words: the headline of the status page.
    pub title: String,
    /// What to show beside it, as pairs of name and value.
    pub facts: Vec<(String, String)>,
    /// Where this node is reached by others, if that is known.
    pub url: Option<String>,
    /// What `/metrics` has.
    pub metrics: Arc<Registry>,
}

struct Shown {
    node: Node,
    gate: LeaderGate,
    leadership: watch::Receiver<Leadership>,
}

/// Who a node is, what it is, and who leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoleView {
    /// This node.
    pub node_id: String,
    /// `LEADER`, `STANDBY` or `DRAINING`.
    pub role: &'static str,
    /// The number of the live term, or of the last one known.
    pub leader_epoch: i64,
    /// Who leads; `None` when no live term is known.
    pub leader_id: Option<String>,
    /// Where the leader is reached, if that is known.
    pub leader_url: Option<String>,
}

impl Shown {
    /// What the gate says at this moment counts, not what was last heard.
    fn role(&self) -> RoleView {
        let Leadership { role, leader, .. } = self.leadership.borrow().clone();
        let node_id = self.gate.holder().to_string();
        let is_open = self.gate.open_until().is_some();
        let role = match role {
            Role::Leader if is_open => "LEADER",
            Role::Draining if is_open => "DRAINING",
            _ => "STANDBY",
        };
        let (leader_id, epoch) = leader.unwrap_or((String::new(), Epoch::ZERO));
        let is_ours = leader_id == node_id;
        let is_live = !leader_id.is_empty() && (!is_ours || is_open);
        RoleView {
            role,
            leader_epoch: epoch.get(),
            leader_url: self.node.url.clone().filter(|_| is_live && is_ours),
            leader_id: is_live.then_some(leader_id),
            node_id,
        }
    }
}

/// The routes of one election.
pub fn routes(node: Node, guard: Guard) -> Router {
    let (gate, leadership) = (node.election.gate(), node.election.leadership());
    let shown = Arc::new(Shown { node, gate, leadership });
    let guarded = Router::new()
        .route("/drain", post(drain).delete(end_drain))
        .layer(middleware::from_fn_with_state(guard, guard::keep_out));
    Router::new()
        .route("/", get(page))
        .route("/healthz", get(async || "ok"))
        .route("/readyz", get(ready))
        .route("/role", get(role))
        .route("/leader", get(leader))
        .route("/metrics", get(metrics_page))
        .merge(guarded)
        .with_state(shown)
}

async fn ready(State(shown): State<Arc<Shown>>) -> String {
    let holder = shown.gate.holder();
    if shown.gate.open_until().is_none() {
        return format!("mode=follower holder_id={holder}");
    }
    match shown.leadership.borrow().expires_at {
        Some(at) => format!("mode=leader holder_id={holder} lease_expires_at={at}"),
        None => format!("mode=leader holder_id={holder}"),
    }
}

async fn role(State(shown): State<Arc<Shown>>) -> Json<RoleView> {
    Json(shown.role())
}

async fn leader(State(shown): State<Arc<Shown>>) -> (StatusCode, &'static str) {
    match shown.gate.open_until() {
        Some(_) => (StatusCode::OK, "leader\n"),
        None => (StatusCode::SERVICE_UNAVAILABLE, "not the leader\n"),
    }
}

async fn metrics_page(State(shown): State<Arc<Shown>>) -> Response {
    metrics::page(&shown.node.metrics)
}

async fn page(State(shown): State<Arc<Shown>>) -> Response {
    let left = shown.gate.open_until().map(tenure::BootInstant::left);
    status::page(&shown.node, shown.gate.scope().as_str(), &shown.role(), left)
}

/// 202: whoever runs for it stops first; `/role` shows how far it is.
async fn drain(State(shown): State<Arc<Shown>>) -> (StatusCode, Json<RoleView>) {
    shown.node.election.drain();
    tracing::info!(target: "tenure", "drain_asked");
    (StatusCode::ACCEPTED, Json(shown.role()))
}

async fn end_drain(State(shown): State<Arc<Shown>>) -> (StatusCode, Json<RoleView>) {
    shown.node.election.end_drain();
    tracing::info!(target: "tenure", "drain_ended");
    (StatusCode::ACCEPTED, Json(shown.role()))
}
