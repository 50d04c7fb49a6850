-- The fence where the scope's lock is not the usual lease table, step by step; and the refusals.
-- Returns the margin in milliseconds, or raises TN001.
CREATE OR REPLACE FUNCTION tenure_fence_of_other_lock(scope text, holder text, epoch bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    fence       record;
    -- Not a record: its fields would keep the types that they had in this session's first scope.
    lock_holder text;
    lock_epoch  bigint;
    lock_until  timestamptz;
BEGIN
    IF num_nulls(scope, nullif(holder, ''), epoch) > 0 THEN
        PERFORM tenure_refuse(scope, holder, epoch, NULL, 'scope, holder and epoch must be given');
    END IF;
    IF pg_is_in_recovery() THEN
        PERFORM tenure_refuse(scope, holder, epoch, NULL, 'this server is a standby and takes no writes');
    END IF;
    SELECT f.epoch, f.holder, f.lock_kind, f.lock_place INTO fence
    FROM tenure_fences AS f WHERE f.scope = scope;
    IF NOT FOUND THEN
        PERFORM tenure_refuse(scope, holder, epoch, NULL, 'nobody has ever led this scope');
    END IF;

    -- First the lock's own row, without locking it. A lock outside this database has none.
    IF fence.lock_kind = 'postgres-lease' THEN
        EXECUTE format('SELECT holder_id, lease_epoch, expires_at FROM %s WHERE lease_name = $1',
                       fence.lock_place)
        INTO lock_holder, lock_epoch, lock_until USING scope;
    ELSIF fence.lock_kind = 'postgres-advisory' THEN
        SELECT s.holder_identity, s.epoch, s.last_heartbeat + s.late_threshold_ms * interval '1 ms'
        INTO lock_holder, lock_epoch, lock_until
        FROM msp_leader_state AS s WHERE s.id = 1 AND s.scope_key = fence.lock_place::bigint;
    ELSE
        SELECT holder, epoch, 'infinity' INTO lock_holder, lock_epoch, lock_until;
    END IF;
    IF (lock_epoch = epoch AND lock_holder = holder) IS NOT TRUE THEN
        PERFORM tenure_refuse(scope, holder, epoch, fence.epoch,
            format('the lock names term %s of %s', lock_epoch, lock_holder));
    END IF;
    IF (lock_until > clock_timestamp()) IS NOT TRUE THEN
        PERFORM tenure_refuse(scope, holder, epoch, fence.epoch,
            format('its lease expired at %s', lock_until));
    END IF;

    -- Then the session's slot of the fence, locked until the transaction ends: what safety rests on.
    SELECT f.epoch, f.holder, f.margin_ms INTO fence
    FROM tenure_fence_slots AS f WHERE f.scope = scope AND f.slot = tenure_fence_slot() FOR SHARE;
    IF (fence.epoch = epoch AND fence.holder = holder) IS NOT TRUE THEN
        PERFORM tenure_refuse(scope, holder, epoch, fence.epoch,
            format('the fence stands at term %s of %s', fence.epoch, fence.holder));
    END IF;
    RETURN fence.margin_ms;
END
$$;
