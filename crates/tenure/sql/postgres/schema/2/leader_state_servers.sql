-- The advisory lock's row learns which server granted the term.
ALTER TABLE msp_leader_state
    ADD COLUMN IF NOT EXISTS server        text        NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS unknown_until timestamptz NOT NULL DEFAULT '-infinity';
COMMENT ON COLUMN msp_leader_state.server IS
    'Which server granted the term; empty where its client did not say.';
COMMENT ON COLUMN msp_leader_state.unknown_until IS
    'Until then a term that another server granted may be acted in, and nobody here knows of it.';
