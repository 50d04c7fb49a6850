-- One row per lease that was granted: up to 64 jobs that one agent got at once.
CREATE TABLE tenure_job_leases (
    lease_id     text        COLLATE "C" PRIMARY KEY,
    namespace    text        COLLATE "C" NOT NULL,
    agent        text        COLLATE "C" NOT NULL,
    leader_epoch bigint      NOT NULL,
    granted_at   timestamptz NOT NULL
);
