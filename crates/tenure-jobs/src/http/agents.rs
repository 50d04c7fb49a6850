//! Agents: heard, listed, buried.

use axum::{
    Json,
    extract::{Path, RawQuery, State},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::{
    Shared,
    described::{LabelsText, NameText, NamespaceParam, NotDone},
    error::{ApiError, OtherError},
    read::{self, Body, Name, Query},
};
use crate::{
    agent::{AgentView, Heartbeat},
    round::AgentName,
};

#[derive(Deserialize, ToSchema)]
pub(crate) struct HeartbeatBody {
    /// Who is alive.
    #[schema(value_type = NameText)]
    name: Option<String>,
    /// What it says of itself; `namespace` is where it works.
    #[schema(value_type = Option<LabelsText>)]
    labels: Option<Box<RawValue>>,
    /// The ops that it can do.
    #[schema(value_type = Option<Value>)]
    capabilities: Option<Box<RawValue>>,
    /// What kind of worker it is.
    #[schema(value_type = Option<Value>)]
    worker_profile: Option<Box<RawValue>>,
    /// How it is.
    #[schema(value_type = Option<Value>)]
    metrics: Option<Box<RawValue>>,
    /// The leases that it works on: only those are extended, and the answer says which of them are gone. Default: all
    /// that are in its name, also those of a process that had the name before; then each for ten leases at most, or for
    /// as long as a run of the job may take.
    #[schema(value_type = Option<Vec<NameText>>, max_items = 4_096)]
    leases: Option<Vec<String>>,
    /// The term that the caller believes the leader to be in.
    #[serde(default, deserialize_with = "read::whole")]
    leader_epoch: Option<i64>,
}

/// What the controller itself reads of the labels.
#[derive(Default, Deserialize)]
struct Labels {
    namespace: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct HeardBody {
    ok: bool,
    /// Of the leases that it named, those that are its own no more: whatever it reports under them is stale.
    gone: Vec<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct DeletedBody {
    ok: bool,
    deleted: bool,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct AgentsBody {
    agents: Vec<AgentView>,
}

/// Be alive
///
/// What the agent works on stays its own for another lease.
#[utoipa::path(
    post,
    path = "/v1/agents/heartbeat",
    request_body(content = HeartbeatBody, content_type = "application/json"),
    responses(
        (status = 200, description = "It was heard", body = HeardBody),
        (status = 400, description = "The request is wrong", body = OtherError),
        (status = 401, description = "A token is asked for"),
        (status = 409, description = "Another node leads, or another term", body = NotDone),
        (status = 413, description = "The request is too large", body = OtherError),
        (status = 422, description = "A field is missing", body = OtherError),
        (status = 503, description = "The database does not answer", body = OtherError),
    )
)]
pub(crate) async fn hear(State(api): Shared, body: Body) -> Result<Json<HeardBody>, ApiError> {
    let term = read::require_leader(&api)?;
    let body: HeartbeatBody = read::object(body)?;
    read::require_epoch(&api, body.leader_epoch, term)?;
    let heard = api.controller.desk.hear(heartbeat(body)?).await;
    let gone = heard.map_err(|why| ApiError::of_refusal(why, &api.controller.stand))?;
    Ok(Json(HeardBody { ok: true, gone }))
}

fn heartbeat(body: HeartbeatBody) -> Result<Heartbeat, ApiError> {
    let labels = body.labels.as_deref().map(|labels| serde_json::from_str::<Labels>(labels.get()));
    let labels = labels.transpose();
    let known = labels.map_err(|_| ApiError::invalid("labels must be an object"))?;
    Ok(Heartbeat {
        namespace: read::namespace(known.unwrap_or_default().namespace)?,
        name: read::required_name("name", body.name)?,
        labels: read::small_value("labels", body.labels)?,
        capabilities: read::small_value("capabilities", body.capabilities)?,
        worker_profile: read::small_value("worker_profile", body.worker_profile)?,
        metrics: read::small_value("metrics", body.metrics)?,
        leases: read::leases(body.leases)?,
    })
}

/// List the agents of a namespace
#[utoipa::path(
    get,
    path = "/v1/agents",
    params(NamespaceParam),
    responses(
        (status = 200, description = "The agents", body = AgentsBody),
        (status = 400, description = "The request is wrong", body = OtherError),
        (status = 401, description = "A token is asked for"),
        (status = 503, description = "The database does not answer", body = OtherError),
    )
)]
pub(crate) async fn list(
    State(api): Shared,
    query: RawQuery,
) -> Result<Json<AgentsBody>, ApiError> {
    let namespace = Query::read(query).namespace()?;
    let agents = api.controller.store.agents(&namespace).await;
    Ok(Json(AgentsBody { agents: agents.map_err(|error| ApiError::of_store(&error))? }))
}

/// In which term.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "only described")]
struct LeaderEpochParam {
    /// The term that the caller believes the leader to be in.
    #[param(required = false, nullable = false)]
    leader_epoch: i64,
}

/// Bury an agent
///
/// It is a tombstone, and what it worked on is queued again. One that is buried already, or was never there, is fine
/// too; one that is alive after all says so with its next heartbeat.
#[utoipa::path(
    delete,
    path = "/v1/agents/{agent_name}",
    params(
        ("agent_name" = NameText, Path, description = "Its name"),
        NamespaceParam,
        LeaderEpochParam,
    ),
    responses(
        (status = 200, description = "It is a tombstone, or was never there", body = DeletedBody),
        (status = 400, description = "The request is wrong", body = OtherError),
        (status = 401, description = "A token is asked for"),
        (status = 409, description = "Another node leads, or another term", body = NotDone),
        (status = 503, description = "The database does not answer", body = OtherError),
    )
)]
pub(crate) async fn bury(
    State(api): Shared,
    name: Name,
    query: RawQuery,
) -> Result<Json<DeletedBody>, ApiError> {
    let term = read::require_leader(&api)?;
    let query = Query::read(query);
    read::require_epoch(&api, query.number("leader_epoch")?, term)?;
    let Path(name) = name.map_err(|_| ApiError::invalid("the agent's name cannot be read"))?;
    let agent = AgentName { namespace: query.namespace()?, name: read::name("the name", name)? };
    let buried = api.controller.desk.bury(agent).await;
    buried.map_err(|why| ApiError::of_refusal(why, &api.controller.stand))?;
    Ok(Json(DeletedBody { ok: true, deleted: true }))
}
