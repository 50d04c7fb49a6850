-- Who has led, and where it was reached. Moments are microseconds since 1970, UTC, here and below.
CREATE TABLE tenure_job_leaders (
    leader_epoch INTEGER PRIMARY KEY,
    leader_id    TEXT    NOT NULL,
    leader_url   TEXT,
    began_at     INTEGER NOT NULL
) STRICT;
