-- Who has led, and where it was reached: standbys name the last one to whoever comes to them.
CREATE TABLE tenure_job_leaders (
    leader_epoch bigint      PRIMARY KEY,
    leader_id    text        NOT NULL,
    leader_url   text,
    began_at     timestamptz NOT NULL
);
