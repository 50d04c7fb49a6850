-- One row per agent that has sent a heartbeat, until it is forgotten.
CREATE TABLE tenure_job_agents (
    namespace      TEXT    NOT NULL,
    name           TEXT    NOT NULL,
    state          TEXT    NOT NULL CHECK (state IN ('alive', 'stale', 'tombstoned')),
    labels         TEXT    NOT NULL,
    capabilities   TEXT    NOT NULL,
    worker_profile TEXT    NOT NULL,
    metrics        TEXT    NOT NULL,
    leader_epoch   INTEGER NOT NULL,
    first_seen_at  INTEGER NOT NULL,
    last_seen_at   INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;
