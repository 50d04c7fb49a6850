-- One row per job that has ended; only ever appended. The key is why a job ends once.
CREATE TABLE tenure_job_results (
    row_number   bigint      PRIMARY KEY,
    job_epoch    bigint      NOT NULL,
    lease_id     text        COLLATE "C" NOT NULL,
    status       text        NOT NULL CHECK (status IN ('succeeded', 'failed')),
    result       text,
    error        text,
    leader_epoch bigint      NOT NULL,
    recorded_at  timestamptz NOT NULL
);
COMMENT ON COLUMN tenure_job_results.row_number IS 'The row of the job.';
