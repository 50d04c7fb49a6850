-- One row per intent. The contract is a copy of what the registry said when it was submitted. Moments are
-- microseconds since 1970, UTC. row_number is what the leader schedules by, and never used again;
-- modified_number is the transaction that wrote the row last, as submission_changes counts them;
-- reserved_attempt is the attempt that is under way, or was when its leader died.
CREATE TABLE submission_intents (
    row_number             INTEGER PRIMARY KEY AUTOINCREMENT,
    intent_id              TEXT    NOT NULL UNIQUE
                           CHECK (length(intent_id) <= 200 AND instr(intent_id, char(0)) = 0),
    submission_target      TEXT    NOT NULL,
    payload                BLOB    NOT NULL,
    payload_hash           BLOB    NOT NULL CHECK (length(payload_hash) = 32),
    gateway_type           TEXT    NOT NULL,
    gateway_url            TEXT    NOT NULL,
    policy                 TEXT    NOT NULL,
    max_acceptance_seconds INTEGER,
    max_attempts           INTEGER,
    terminal_outcomes      TEXT    NOT NULL,
    webhook_url            TEXT,
    webhook_headers        TEXT,
    webhook_headers_env    TEXT,
    webhook_secret_env     TEXT,
    webhook_status         TEXT    CHECK (webhook_status IN ('pending', 'delivered', 'failed')),
    webhook_attempted_at   INTEGER,
    webhook_delivered_at   INTEGER,
    webhook_error          TEXT,
    status                 TEXT    NOT NULL DEFAULT 'pending'
                           CHECK (status IN ('pending', 'accepted', 'rejected', 'exhausted')),
    final_outcome_status   TEXT,
    final_outcome_reason   TEXT,
    exhausted_reason       TEXT,
    attempt_count          INTEGER NOT NULL DEFAULT 0,
    reserved_attempt       INTEGER,
    reserved_at            INTEGER,
    reserved_epoch         INTEGER,
    created_at             INTEGER NOT NULL,
    updated_at             INTEGER NOT NULL,
    last_modified_at       INTEGER NOT NULL,
    next_attempt_at        INTEGER,
    completed_at           INTEGER,
    version                INTEGER NOT NULL DEFAULT 1,
    modified_number        INTEGER NOT NULL,
    CHECK ((status = 'pending') = (next_attempt_at IS NOT NULL))
) STRICT;
CREATE INDEX submission_intents_modified ON submission_intents (modified_number);
CREATE INDEX submission_intents_pending ON submission_intents (row_number, version, next_attempt_at)
    WHERE status = 'pending';
CREATE INDEX submission_intents_webhook ON submission_intents (row_number) WHERE webhook_status = 'pending';
