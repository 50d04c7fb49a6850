-- Raises the fence of a scope to a term that has been won, if it stands below it; waits for the fenced
-- transactions that are open. Returns whether the fence names the term now, and where it stands.
-- A repeat of a raise whose answer was lost answers as the first did.
-- While it runs it has the advisory lock (tenure_raise, scope), by which others find whom it waits for.
-- A session plans it once; a follower does so beforehand, because a winner is in a hurry.
-- TN002: the scope is fenced by another lock, until an operator switches it.
CREATE OR REPLACE FUNCTION tenure_raise_fence(
    scope text, holder text, epoch bigint, lock_kind text, lock_place text, margin_ms bigint,
    OUT raised boolean, OUT fence_epoch bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_variable
DECLARE
    fence_holder text;
    kind         text;
    place        text;
BEGIN
    IF num_nulls(scope, holder, epoch, lock_kind, lock_place, margin_ms) > 0 THEN
        RAISE EXCEPTION 'tenure_raise_fence got a null' USING ERRCODE = 'TN001';
    END IF;
    -- Epoch 0 of nobody is a fence that was never raised, and a timeout of 0 is none.
    IF holder = '' OR epoch < 1 OR margin_ms < 1 THEN
        RAISE EXCEPTION 'tenure_raise_fence needs a holder, an epoch and a margin above 0, and got %, % and %',
            quote_literal(holder), epoch, margin_ms
            USING ERRCODE = 'TN001';
    END IF;
    IF lock_kind = 'postgres-lease'
        AND NOT EXISTS (SELECT FROM tenure_lease_tables AS t WHERE t.name = lock_place)
    THEN
        RAISE EXCEPTION 'no lease table % is known here', lock_place USING ERRCODE = 'TN002',
            HINT = 'Create it with tenure_create_lease_table(name).';
    END IF;

    PERFORM pg_advisory_xact_lock(hashtext('tenure_raise'), hashtext(scope));
    INSERT INTO tenure_fences (scope, epoch, holder, lock_kind, lock_place, margin_ms)
    VALUES (scope, 0, '', '', '', margin_ms)
    ON CONFLICT DO NOTHING;
    SELECT f.epoch, f.holder, f.lock_kind, f.lock_place INTO fence_epoch, fence_holder, kind, place
    FROM tenure_fences AS f WHERE f.scope = scope FOR UPDATE;

    IF kind <> '' AND (kind, place) IS DISTINCT FROM (lock_kind, lock_place) THEN
        RAISE EXCEPTION 'scope % is fenced by the lock % %, not by % %',
            quote_literal(scope), kind, place, lock_kind, lock_place
            USING ERRCODE = 'TN002',
                  HINT = 'Stop every node, then run: tenure scope switch-lock --scope …';
    END IF;
    IF fence_epoch < epoch THEN
        UPDATE tenure_fences AS f
        SET epoch = epoch, holder = holder, lock_kind = lock_kind, lock_place = lock_place,
            margin_ms = margin_ms, raised_at = clock_timestamp()
        WHERE f.scope = scope AND f.epoch < epoch;
        PERFORM tenure_begin_term(scope, holder, epoch, lock_kind);
        fence_epoch := epoch;
        fence_holder := holder;
    END IF;
    raised := fence_epoch = epoch AND fence_holder = holder;
END
$$;
