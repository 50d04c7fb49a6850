-- What has happened, numbered in the order of commits. The namespace of an event that concerns all is empty.
CREATE TABLE tenure_job_events (
    event_number bigint      PRIMARY KEY,
    namespace    text        COLLATE "C" NOT NULL,
    kind         text        NOT NULL,
    job_id       text,
    job_epoch    bigint,
    agent        text,
    detail       text,
    leader_epoch bigint      NOT NULL,
    recorded_at  timestamptz NOT NULL
);
