-- One row per scope: the highest term that may write. Only a takeover and an operator change it.
CREATE TABLE tenure_fences (
    scope      text        PRIMARY KEY,
    epoch      bigint      NOT NULL,
    holder     text        NOT NULL,
    lock_kind  text        NOT NULL,
    lock_place text        NOT NULL,
    margin_ms  bigint      NOT NULL,
    raised_at  timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
COMMENT ON TABLE tenure_fences IS
    'The fence: a write is accepted only from the term named here. Epochs never go back.';
