-- One row per job that has ended; only ever appended. The key, the row of the job, is why a job ends once.
CREATE TABLE tenure_job_results (
    row_number   INTEGER PRIMARY KEY,
    job_epoch    INTEGER NOT NULL,
    lease_id     TEXT    NOT NULL,
    status       TEXT    NOT NULL CHECK (status IN ('succeeded', 'failed')),
    result       TEXT,
    error        TEXT,
    leader_epoch INTEGER NOT NULL,
    recorded_at  INTEGER NOT NULL
) STRICT;
