-- One row per agent that has sent a heartbeat, until it is forgotten.
CREATE TABLE tenure_job_agents (
    namespace      text        COLLATE "C" NOT NULL,
    name           text        COLLATE "C" NOT NULL,
    state          text        NOT NULL CHECK (state IN ('alive', 'stale', 'tombstoned')),
    labels         text        NOT NULL,
    capabilities   text        NOT NULL,
    worker_profile text        NOT NULL,
    metrics        text        NOT NULL,
    leader_epoch   bigint      NOT NULL,
    first_seen_at  timestamptz NOT NULL,
    last_seen_at   timestamptz NOT NULL,
    PRIMARY KEY (namespace, name)
) WITH (fillfactor = 70);
