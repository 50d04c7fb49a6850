-- The first step of the fence: why the lock's own row does not speak for this term, or null if it does.
-- It reads without locking. Safety rests on the second step; this one stops a holder whose lease has
-- expired, and keeps its writers from starving a takeover that waits for the fence row.
CREATE OR REPLACE FUNCTION tenure_lock_refusal(
    scope text, holder text, epoch bigint, lock_kind text, lock_place text
) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    row_holder  text;
    row_epoch   bigint;
    row_expires timestamptz;
BEGIN
    IF lock_kind = 'postgres-lease' AND lock_place = 'tenure_leases' THEN
        SELECT l.holder_id, l.lease_epoch, l.expires_at INTO row_holder, row_epoch, row_expires
        FROM tenure_leases AS l WHERE l.lease_name = scope;
    ELSIF lock_kind = 'postgres-lease' THEN
        EXECUTE format(
            'SELECT holder_id, lease_epoch, expires_at FROM %s WHERE lease_name = $1', lock_place)
        INTO row_holder, row_epoch, row_expires USING scope;
    ELSIF lock_kind = 'postgres-advisory' THEN
        SELECT s.holder_identity, s.epoch, s.last_heartbeat + s.late_threshold_ms * interval '1 ms'
        INTO row_holder, row_epoch, row_expires
        FROM msp_leader_state AS s WHERE s.id = 1 AND s.scope_key = lock_place::bigint;
    ELSE
        -- The lock lives outside this database; the fence row stands alone.
        RETURN NULL;
    END IF;
    IF row_epoch IS DISTINCT FROM epoch OR row_holder IS DISTINCT FROM holder THEN
        RETURN format('the lock names term %s of %s', row_epoch, row_holder);
    END IF;
    IF row_expires <= clock_timestamp() THEN
        RETURN format('its lease expired at %s', row_expires);
    END IF;
    RETURN NULL;
END
$$;
