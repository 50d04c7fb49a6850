//! What an election shows of itself, and how it is drained.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    middleware,
    response::{IntoResponse, Response},
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
    /// Who led last and where, as the data tells it; for those who keep that.
    pub told: Option<watch::Receiver<Option<KnownLeader>>>,
    /// What `/healthz` says.
    pub health: Health,
    /// What `/metrics` has.
    pub metrics: Arc<Registry>,
}

/// What `/healthz` says while the process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// `ok`.
    Word,
    /// A JSON object with the role.
    Role,
}

/// A leader, and where it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownLeader {
    /// Its term.
    pub epoch: Epoch,
    /// Its name.
    pub id: String,
    /// Where it is reached, if it said so.
    pub url: Option<String>,
}

/// What one node is at any moment.
#[derive(Clone)]
pub struct Stand {
    gate: LeaderGate,
    leadership: watch::Receiver<Leadership>,
    url: Option<String>,
    told: Option<watch::Receiver<Option<KnownLeader>>>,
}

struct Shown {
    node: Node,
    stand: Stand,
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

impl Node {
    /// What it is at any moment.
    #[must_use]
    pub fn stand(&self) -> Stand {
        Stand {
            gate: self.election.gate(),
            leadership: self.election.leadership(),
            url: self.url.clone(),
            told: self.told.clone(),
        }
    }
}

impl Stand {
    /// What the gate says at this moment counts, not what was last heard.
    #[must_use]
    pub fn role(&self) -> RoleView {
        let Leadership { role, leader, last_epoch, .. } = self.leadership.borrow().clone();
        let node_id = self.gate.holder().to_string();
        let is_open = self.gate.open_until().is_some();
        let role = match role {
            Role::Leader if is_open => "LEADER",
            Role::Draining if is_open => "DRAINING",
            _ => "STANDBY",
        };
        let told = self.told.as_ref().and_then(|told| told.borrow().clone());
        let last_epoch = told.as_ref().map_or(last_epoch, |told| told.epoch.max(last_epoch));
        let live = latest(leader, told).filter(|leader| is_open || leader.id != node_id);
        let leader_url = live.as_ref().and_then(|leader| match leader.id == node_id {
            true => self.url.clone(),
            false => leader.url.clone(),
        });
        RoleView {
            role,
            leader_epoch: live.as_ref().map_or(last_epoch, |leader| leader.epoch).get(),
            leader_id: live.map(|leader| leader.id),
            leader_url,
            node_id,
        }
    }
}

/// The lock tells whether somebody leads; the data may know sooner who that is, and knows where.
fn latest(heard: Option<(String, Epoch)>, told: Option<KnownLeader>) -> Option<KnownLeader> {
    let (id, epoch) = heard?;
    let told = told.filter(|told| told.epoch >= epoch);
    Some(told.unwrap_or(KnownLeader { epoch, id, url: None }))
}

/// That a node runs, and what it is.
#[derive(Debug, Serialize)]
struct HealthView {
    ok: bool,
    role: &'static str,
    leader_epoch: i64,
    leader_id: Option<String>,
}

/// The routes of one election.
pub fn routes(node: Node, guard: Guard) -> Router {
    let shown = Arc::new(Shown { stand: node.stand(), node });
    let guarded = Router::new()
        .route("/drain", post(drain).delete(end_drain))
        .layer(middleware::from_fn_with_state(guard, guard::keep_out));
    Router::new()
        .route("/", get(page))
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
        .route("/role", get(role))
        .route("/leader", get(leader))
        .route("/metrics", get(metrics_page))
        .merge(guarded)
        .with_state(shown)
}

async fn health(State(shown): State<Arc<Shown>>) -> Response {
    let RoleView { role, leader_epoch, leader_id, .. } = match shown.node.health {
        Health::Word => return "ok".into_response(),
        Health::Role => shown.stand.role(),
    };
    Json(HealthView { ok: true, role, leader_epoch, leader_id }).into_response()
}

async fn ready(State(shown): State<Arc<Shown>>) -> String {
    let holder = shown.stand.gate.holder();
    if shown.stand.gate.open_until().is_none() {
        return format!("mode=follower holder_id={holder}");
    }
    match shown.stand.leadership.borrow().expires_at {
        Some(at) => format!("mode=leader holder_id={holder} lease_expires_at={at}"),
        None => format!("mode=leader holder_id={holder}"),
    }
}

async fn role(State(shown): State<Arc<Shown>>) -> Json<RoleView> {
    Json(shown.stand.role())
}

async fn leader(State(shown): State<Arc<Shown>>) -> (StatusCode, &'static str) {
    match shown.stand.gate.open_until() {
        Some(_) => (StatusCode::OK, "leader\n"),
        None => (StatusCode::SERVICE_UNAVAILABLE, "not the leader\n"),
    }
}

async fn metrics_page(State(shown): State<Arc<Shown>>) -> Response {
    metrics::page(&shown.node.metrics)
}

async fn page(State(shown): State<Arc<Shown>>) -> Response {
    let left = shown.stand.gate.open_until().map(tenure::BootInstant::left);
    status::page(&shown.node, shown.stand.gate.scope().as_str(), &shown.stand.role(), left)
}

/// 202: whoever runs for it stops first; `/role` shows how far it is.
async fn drain(State(shown): State<Arc<Shown>>) -> (StatusCode, Json<RoleView>) {
    shown.node.election.drain();
    tracing::info!(target: "tenure", "drain_asked");
    (StatusCode::ACCEPTED, Json(shown.stand.role()))
}

async fn end_drain(State(shown): State<Arc<Shown>>) -> (StatusCode, Json<RoleView>) {
    shown.node.election.end_drain();
    tracing::info!(target: "tenure", "drain_ended");
    (StatusCode::ACCEPTED, Json(shown.stand.role()))
}
