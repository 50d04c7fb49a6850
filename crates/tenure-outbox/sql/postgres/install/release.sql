-- Gives rows back whose work was not begun: no attempt is recorded, and they are due now, where every claim looks: who
-- has gone past the moment at which they were due first would not look there again for a while. The answer has a row
-- per lease, in their order: result 'done' or 'lease_lost'.
-- SQLSTATE 22023: the lists are not equally long.
CREATE OR REPLACE FUNCTION public.release_outbox_leases(
    p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[]
) RETURNS TABLE (ordinal bigint, outbox_id uuid, result text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_mergejoin = off
SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamp with time zone;
    v_ordinals bigint[];
BEGIN
    IF cardinality(p_outbox_ids) IS DISTINCT FROM cardinality(p_lease_tokens) THEN
        RAISE EXCEPTION 'the lists must be equally long' USING ERRCODE = 'invalid_parameter_value';
    END IF;

    -- Locked first, in one order, and the clock read afterwards.
    PERFORM public.lock_outbox_leases(p_worker_id, p_outbox_ids, p_lease_tokens);
    v_now := clock_timestamp();

    WITH released AS (
        UPDATE public.payment_outbox_pending AS p
        SET claimed_by = NULL, lease_token = NULL, lease_expires_at = NULL,
            next_attempt_at = greatest(p.next_attempt_at, v_now)
        FROM unnest(p_outbox_ids, p_lease_tokens) WITH ORDINALITY AS u(outbox_id, lease_token, ordinal)
        WHERE p.outbox_id = u.outbox_id AND p.lease_token = u.lease_token
            AND (p.claimed_by = p_worker_id AND p.lease_expires_at > v_now) IS TRUE
        RETURNING u.ordinal
    )
    SELECT array_agg(r.ordinal) INTO v_ordinals FROM released AS r;
    IF v_ordinals IS NOT NULL THEN
        PERFORM public.announce_outbox_work();
    END IF;
    RETURN QUERY
        SELECT u.ordinal, u.outbox_id,
            CASE WHEN u.ordinal = ANY (v_ordinals) THEN 'done' ELSE 'lease_lost' END
        FROM unnest(p_outbox_ids) WITH ORDINALITY AS u(outbox_id, ordinal)
        ORDER BY u.ordinal;
END
$$;
COMMENT ON FUNCTION public.release_outbox_leases(text, uuid[], uuid[]) IS
    'For work that was not begun: whatever was begun is told by complete_outbox_attempts, or runs out.';
