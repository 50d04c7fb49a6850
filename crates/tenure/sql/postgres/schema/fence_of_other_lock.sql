-- The fence where the scope's lock is not the usual lease table, step by step; and the refusals.
-- Returns the margin in milliseconds, or raises TN001.
CREATE OR REPLACE FUNCTION tenure_fence_of_other_lock(scope text, holder text, epoch bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    fence record;
    lease record;
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
        EXECUTE format('SELECT holder_id AS holder, lease_epoch AS epoch, expires_at FROM %s
                        WHERE lease_name = $1', fence.lock_place)
        INTO lease USING scope;
    ELSIF fence.lock_kind = 'postgres-advisory' THEN
        SELECT s.holder_identity AS holder, s.epoch,
               s.last_heartbeat + s.late_threshold_ms * interval '1 ms' AS expires_at INTO lease
        FROM msp_leader_state AS s WHERE s.id = 1 AND s.scope_key = fence.lock_place::bigint;
    ELSE
        SELECT holder, epoch, 'infinity'::timestamptz AS expires_at INTO lease;
    END IF;
    IF (lease.epoch = epoch AND lease.holder = holder) IS NOT TRUE THEN
        PERFORM tenure_refuse(scope, holder, epoch, fence.epoch,
            format('the lock names term %s of %s', lease.epoch, lease.holder));
    END IF;
    IF (lease.expires_at > clock_timestamp()) IS NOT TRUE THEN
        PERFORM tenure_refuse(scope, holder, epoch, fence.epoch,
            format('its lease expired at %s', lease.expires_at));
    END IF;

    -- Then the fence row, locked until the transaction ends: what safety rests on.
    SELECT f.epoch, f.holder, f.margin_ms INTO fence
    FROM tenure_fences AS f WHERE f.scope = scope FOR SHARE;
    IF (fence.epoch = epoch AND fence.holder = holder) IS NOT TRUE THEN
        PERFORM tenure_refuse(scope, holder, epoch, fence.epoch,
            format('the fence stands at term %s of %s', fence.epoch, fence.holder));
    END IF;
    RETURN fence.margin_ms;
END
$$;
