-- What has happened, numbered in the order of commits. The namespace of an event that concerns all is empty.
CREATE TABLE tenure_job_events (
    event_number INTEGER PRIMARY KEY,
    namespace    TEXT    NOT NULL,
    kind         TEXT    NOT NULL,
    job_id       TEXT,
    job_epoch    INTEGER,
    agent        TEXT,
    detail       TEXT,
    leader_epoch INTEGER NOT NULL,
    recorded_at  INTEGER NOT NULL
) STRICT;
