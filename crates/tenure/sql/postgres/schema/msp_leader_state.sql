-- The advisory lock's row: who holds a scope, with which epoch, and when it last proved so. One database
-- holds many scopes. A table with the older key (id) is converted; an older client's statements still work.
CREATE TABLE IF NOT EXISTS msp_leader_state (
    id              smallint    NOT NULL DEFAULT 1,
    scope_key       bigint      NOT NULL,
    epoch           bigint      NOT NULL,
    holder_identity text        NOT NULL,
    last_heartbeat  timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
ALTER TABLE msp_leader_state
    ADD COLUMN IF NOT EXISTS scope             text,
    ADD COLUMN IF NOT EXISTS late_threshold_ms bigint      NOT NULL DEFAULT 6000,
    ADD COLUMN IF NOT EXISTS released_epoch    bigint      NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS quiet_at          timestamptz NOT NULL DEFAULT '-infinity',
    ADD COLUMN IF NOT EXISTS margin_ms         float8      NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS processes         text        NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS processes_epoch   bigint      NOT NULL DEFAULT 0;
DO $$
DECLARE
    key_name text;
    columns  text;
BEGIN
    SELECT c.conname, string_agg(a.attname, ',' ORDER BY a.attnum) INTO key_name, columns
    FROM pg_constraint AS c
    JOIN pg_attribute AS a ON a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey)
    WHERE c.conrelid = 'msp_leader_state'::regclass AND c.contype = 'p'
    GROUP BY c.conname;
    IF columns = 'id' THEN
        EXECUTE format('ALTER TABLE msp_leader_state DROP CONSTRAINT %I', key_name);
        key_name := NULL;
    END IF;
    IF key_name IS NULL THEN
        ALTER TABLE msp_leader_state ADD PRIMARY KEY (scope_key, id);
    END IF;
END
$$;
COMMENT ON COLUMN msp_leader_state.released_epoch IS
    'The last term that was given back: equal to epoch, the holder has stopped acting.';
COMMENT ON COLUMN msp_leader_state.quiet_at IS
    'When the gates of all terms before this one are shut; a release does not bring it forward.';
COMMENT ON COLUMN msp_leader_state.margin_ms IS
    'How long after its late threshold whatever the holder has started may still be ending.';
COMMENT ON COLUMN msp_leader_state.processes IS
    'The processes that act in the term processes_epoch: a successor on their host can see them gone.';
