//! Types that only describe: what a field takes, said so that a program can check it.

use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use super::error::{Detailed, NotLeaderFields, OtherError, StaleFields};

/// 1 to 200 characters, none of them a control character.
#[derive(ToSchema)]
#[schema(
    value_type = String,
    min_length = 1,
    max_length = 200,
    pattern = r"^[^\x00-\x1f\x7f-\x9f]*$"
)]
pub(super) struct NameText(#[allow(dead_code, reason = "only described")] String);

/// How a job ended.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(dead_code, reason = "only described")]
pub(super) enum StatusName {
    Succeeded,
    Failed,
    /// It was not brought to its end, for a reason that is not its own: somebody else is to do it. Never counts.
    GivenBack,
}

/// What a job is at the moment.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(dead_code, reason = "only described")]
pub(super) enum StateName {
    Queued,
    Leased,
    Succeeded,
    Failed,
}

/// What an agent says of itself.
#[derive(ToSchema)]
#[allow(dead_code, reason = "only described")]
pub(super) struct LabelsText {
    /// Where it works. Default: `default`.
    namespace: Option<NameText>,
}

/// Why one of many results was refused; nothing of it when it was accepted.
#[derive(ToSchema)]
#[allow(dead_code, reason = "only described")]
pub(super) struct RefusedText {
    /// `STALE_EPOCH` or `NOT_FOUND`.
    error: Option<String>,
    /// `STALE_LEASE`.
    alias: Option<String>,
    /// Which part is stale: `job` or `lease`.
    stale: Option<String>,
    /// The term that the controller is in.
    leader_epoch: Option<i64>,
    /// Who was asked.
    node_id: Option<String>,
    /// The job's epoch now.
    job_epoch: Option<i64>,
}

/// Where.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "only described")]
pub(super) struct NamespaceParam {
    /// Default: `default`.
    #[param(required = false, nullable = false, value_type = NameText)]
    namespace: NameText,
}

/// Somebody else must be asked, or what was sent belongs to the past.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only described")]
pub(super) enum NotDone {
    NotLeader(Detailed<NotLeaderFields>),
    Stale(Detailed<StaleFields>),
}

/// The same, or the id has another job.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only described")]
pub(super) enum NotSubmitted {
    NotLeader(Detailed<NotLeaderFields>),
    Stale(Detailed<StaleFields>),
    Conflict(OtherError),
}
