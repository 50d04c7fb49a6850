-- One row per lease that was granted: up to 64 jobs that one agent got at once.
CREATE TABLE tenure_job_leases (
    lease_id     TEXT    PRIMARY KEY,
    namespace    TEXT    NOT NULL,
    agent        TEXT    NOT NULL,
    leader_epoch INTEGER NOT NULL,
    granted_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
