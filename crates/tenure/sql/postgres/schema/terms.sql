-- The history of terms: who led, from when to when, and why it ended.
CREATE TABLE tenure_terms (
    scope     text        NOT NULL,
    epoch     bigint      NOT NULL,
    holder    text        NOT NULL,
    lock_kind text        NOT NULL,
    began_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at  timestamptz,
    reason    text,
    PRIMARY KEY (scope, epoch)
);
COMMENT ON TABLE tenure_terms IS 'One row per term that raised the fence; never rewritten once it has ended.';
