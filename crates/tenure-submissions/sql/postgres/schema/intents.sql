-- One row per intent. The contract is a copy of what the registry said when it was submitted.
CREATE TABLE submission_intents (
    intent_id              varchar(200) COLLATE "C" PRIMARY KEY,
    row_number             bigint       GENERATED ALWAYS AS IDENTITY,
    submission_target      text         NOT NULL,
    payload                bytea        NOT NULL,
    payload_hash           bytea        NOT NULL CHECK (octet_length(payload_hash) = 32),
    gateway_type           text         NOT NULL,
    gateway_url            text         NOT NULL,
    policy                 text         NOT NULL,
    max_acceptance_seconds bigint,
    max_attempts           integer,
    terminal_outcomes      text         NOT NULL,
    webhook_url            text,
    webhook_headers        text,
    webhook_headers_env    text,
    webhook_secret_env     text,
    webhook_status         text         CHECK (webhook_status IN ('pending', 'delivered', 'failed')),
    webhook_attempted_at   timestamptz,
    webhook_delivered_at   timestamptz,
    webhook_error          text,
    status                 text         NOT NULL DEFAULT 'pending'
                           CHECK (status IN ('pending', 'accepted', 'rejected', 'exhausted')),
    final_outcome_status   text,
    final_outcome_reason   text,
    exhausted_reason       text,
    attempt_count          integer      NOT NULL DEFAULT 0,
    reserved_attempt       integer,
    reserved_at            timestamptz,
    reserved_epoch         bigint,
    created_at             timestamptz  NOT NULL,
    updated_at             timestamptz  NOT NULL,
    last_modified_at       timestamptz  NOT NULL,
    next_attempt_at        timestamptz,
    completed_at           timestamptz,
    version                bigint       NOT NULL DEFAULT 1,
    modified_xid           xid8         NOT NULL DEFAULT pg_current_xact_id(),
    CHECK ((status = 'pending') = (next_attempt_at IS NOT NULL))
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX submission_intents_row_number ON submission_intents (row_number);
CREATE INDEX submission_intents_modified_xid ON submission_intents (modified_xid);
CREATE INDEX submission_intents_pending ON submission_intents (row_number) WHERE status = 'pending';
CREATE INDEX submission_intents_webhook ON submission_intents (row_number) WHERE webhook_status = 'pending';
COMMENT ON COLUMN submission_intents.row_number IS
    'What the leader schedules by: shorter than an id, and never used again.';
COMMENT ON COLUMN submission_intents.modified_xid IS
    'The transaction that wrote the row last: with a snapshot it says what is new, in whatever order transactions commit.';
COMMENT ON COLUMN submission_intents.reserved_attempt IS
    'The attempt that is under way, or was when its leader died: attempt_count + 1, until its row is appended.';
