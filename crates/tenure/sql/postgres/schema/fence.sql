-- The fence for any client: call it first in a transaction, with the term that you act in.
--   scope, holder, epoch: as in TENURE_SCOPE, TENURE_NODE_ID and TENURE_EPOCH.
-- It returns when the term may write, and keeps a takeover out until the transaction ends.
-- It raises SQLSTATE TN001 when the term is over; never retry that under the same epoch.
-- Call it inside BEGIN and COMMIT, or in the statement that writes and joined to it: alone in autocommit
-- its lock is gone before the write. The trigger tenure_require_fence catches whoever forgets.
CREATE OR REPLACE FUNCTION tenure_fence(scope text, holder text, epoch bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    fence_epoch  bigint;
    fence_holder text;
    kind         text;
    place        text;
    within_ms    bigint;
    refusal      text;
BEGIN
    IF scope IS NULL OR coalesce(holder, '') = '' OR epoch IS NULL THEN
        RAISE EXCEPTION 'tenure_fence needs a scope, a holder and an epoch, and got %, % and %',
            quote_nullable(scope), quote_nullable(holder), epoch
            USING ERRCODE = 'TN001';
    END IF;
    IF pg_is_in_recovery() THEN
        RAISE EXCEPTION 'tenure_fence: this server is a standby and accepts no writes'
            USING ERRCODE = 'TN001';
    END IF;

    SELECT f.epoch, f.holder, f.lock_kind, f.lock_place, f.margin_ms
    INTO fence_epoch, fence_holder, kind, place, within_ms
    FROM tenure_fences AS f WHERE f.scope = scope;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'tenure_fence: nobody has ever led the scope %', quote_literal(scope)
            USING ERRCODE = 'TN001';
    END IF;

    refusal := tenure_lock_refusal(scope, holder, epoch, kind, place);
    IF refusal IS NULL THEN
        SELECT f.epoch, f.holder INTO fence_epoch, fence_holder
        FROM tenure_fences AS f WHERE f.scope = scope FOR SHARE;
        IF fence_epoch IS DISTINCT FROM epoch OR fence_holder IS DISTINCT FROM holder THEN
            refusal := format('the fence stands at term %s of %s', fence_epoch, fence_holder);
        END IF;
    END IF;
    IF refusal IS NOT NULL THEN
        RAISE EXCEPTION 'term % of % in % is over: %', epoch, holder, quote_literal(scope), refusal
            USING ERRCODE = 'TN001', DETAIL = fence_epoch::text,
                  HINT = 'Somebody else may lead now. Win a new term; do not retry this write.';
    END IF;

    PERFORM tenure_bound_transaction(within_ms), tenure_mark_fenced(scope);
END
$$;
COMMENT ON FUNCTION tenure_fence(text, text, bigint) IS
    'Raises TN001 unless this term may write; holds a takeover back until the transaction ends.';
