-- The fence for any client: call it first in a transaction, with the term that you act in.
--   scope, holder, epoch: as in TENURE_SCOPE, TENURE_NODE_ID and TENURE_EPOCH.
-- It returns when the term may write, and keeps a takeover out until the transaction ends.
-- It raises SQLSTATE TN001 when the term is over; never retry that under the same epoch.
-- Call it inside BEGIN and COMMIT, or in the statement that writes and joined to it: alone in autocommit
-- its lock is gone before the write. The trigger tenure_require_fence catches whoever forgets.
-- Every fenced write pays for it, so it is one query, and plain assignments instead of PERFORM.
CREATE OR REPLACE FUNCTION tenure_fence(scope text, holder text, epoch bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    margin_ms bigint;
    most      interval;
    ignored   text;
BEGIN
    -- Both steps at once, for the lease table that nearly everybody uses: the lease is read without
    -- locking it, and only where it speaks for this term is the session's slot of the fence locked, until
    -- the transaction ends. A slot that a takeover has changed meanwhile is compared again, and is then
    -- not found.
    SELECT f.margin_ms, f.margin_ms * interval '1 ms' INTO margin_ms, most
    FROM tenure_fence_slots AS f
    WHERE f.scope = scope
      AND f.slot = tenure_fence_slot()
      AND f.epoch = epoch
      AND f.holder = holder
      AND f.lock_kind = 'postgres-lease'
      AND f.lock_place = 'tenure_leases'
      AND EXISTS (
          SELECT FROM tenure_leases AS l
          WHERE l.lease_name = scope
            AND l.holder_id = holder
            AND l.lease_epoch = epoch
            AND l.expires_at > clock_timestamp())
    FOR SHARE OF f;
    IF NOT FOUND THEN
        margin_ms := tenure_fence_of_other_lock(scope, holder, epoch);
        most := margin_ms * interval '1 ms';
    END IF;

    -- A fenced transaction that is left open would hold a takeover back for ever, so its timeouts are
    -- tightened; one that is tighter stays. And, for the trigger: this transaction, by its number, has
    -- passed the fence of this scope. One expression, because each costs every transaction anew.
    ignored := concat(
        CASE WHEN current_setting('statement_timeout')::interval BETWEEN '1 us' AND most THEN ''
             ELSE set_config('statement_timeout', margin_ms::text, true)
        END,
        CASE WHEN current_setting('idle_in_transaction_session_timeout')::interval
                  BETWEEN '1 us' AND most THEN ''
             ELSE set_config('idle_in_transaction_session_timeout', margin_ms::text, true)
        END,
        set_config('tenure.fenced', concat_ws(E'\n',
            nullif(current_setting('tenure.fenced', true), ''),
            pg_current_xact_id()::text || ' ' || scope), true));
END
$$;
COMMENT ON FUNCTION tenure_fence(text, text, bigint) IS
    'Raises TN001 unless this term may write; holds a takeover back until the transaction ends.';
