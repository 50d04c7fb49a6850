-- Makes sure that a scope has its row in msp_leader_state, and that its key belongs to no other scope.
CREATE OR REPLACE FUNCTION tenure_create_advisory_scope(scope_key bigint, scope text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    known text;
BEGIN
    INSERT INTO msp_leader_state (id, scope_key, epoch, holder_identity, last_heartbeat, scope)
    VALUES (1, scope_key, 0, '', clock_timestamp(), scope)
    ON CONFLICT DO NOTHING;
    SELECT s.scope INTO known FROM msp_leader_state AS s WHERE s.id = 1 AND s.scope_key = scope_key;
    IF known IS NULL THEN
        UPDATE msp_leader_state AS s SET scope = scope WHERE s.id = 1 AND s.scope_key = scope_key;
    ELSIF known <> scope THEN
        RAISE EXCEPTION 'the key % of scope % already belongs to scope %',
            scope_key, quote_literal(scope), quote_literal(known)
            USING ERRCODE = 'TN002', HINT = 'Choose another scope name, or set LEADER_LOCK_KEY.';
    END IF;
END
$$;
