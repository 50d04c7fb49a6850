//! An agent, as the controller knows it.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// A sign of life.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    /// Where the agent works.
    pub namespace: String,
    /// Its name there.
    pub name: String,
    /// What it says of itself, each as it was sent.
    pub labels: Box<RawValue>,
    /// The ops that it can do, as it was sent.
    pub capabilities: Box<RawValue>,
    /// What kind of worker it is.
    pub worker_profile: Box<RawValue>,
    /// How it is.
    pub metrics: Box<RawValue>,
    /// The leases that it works on; without this, all that are in its name.
    pub leases: Option<Vec<String>>,
}

impl Heartbeat {
    /// How many bytes it brings.
    pub(crate) fn size(&self) -> usize {
        let said = [&self.labels, &self.capabilities, &self.worker_profile, &self.metrics];
        let leases = self.leases.iter().flatten().map(String::len).sum::<usize>();
        said.iter().map(|said| said.get().len()).sum::<usize>() + leases
    }
}

/// An agent as it is shown.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AgentView {
    /// Its name, within its namespace.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// `alive`, `stale` or `tombstoned`.
    pub state: String,
    /// What it says of itself.
    #[schema(value_type = Option<Object>)]
    pub labels: Box<RawValue>,
    /// The ops that it can do.
    #[schema(value_type = Value)]
    pub capabilities: Box<RawValue>,
    /// What kind of worker it is.
    #[schema(value_type = Value)]
    pub worker_profile: Box<RawValue>,
    /// How it is.
    #[schema(value_type = Value)]
    pub metrics: Box<RawValue>,
    /// The term of the leader that changed it last.
    pub leader_epoch: i64,
    /// When it was first heard.
    #[schema(value_type = String)]
    pub first_seen_at: Timestamp,
    /// When it was last heard.
    #[schema(value_type = String)]
    pub last_seen_at: Timestamp,
}
