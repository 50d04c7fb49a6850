-- Makes leases last p_lease_seconds from now, never shorter than they are. The answer has a row per lease, in
-- their order: result 'done' with the new end, or 'lease_lost'.
-- SQLSTATE 22023: the lists are not equally long, or p_lease_seconds is not above 0.
CREATE OR REPLACE FUNCTION public.extend_outbox_leases(
    p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[], p_lease_seconds integer
) RETURNS TABLE (ordinal bigint, outbox_id uuid, result text, lease_expires_at timestamptz)
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
BEGIN
    IF cardinality(p_outbox_ids) IS DISTINCT FROM cardinality(p_lease_tokens)
        OR coalesce(p_lease_seconds, 0) < 1
    THEN
        RAISE EXCEPTION 'the lists must be equally long, and p_lease_seconds above 0'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    -- Locked first, in one order, and the clock read afterwards.
    PERFORM public.lock_outbox_leases(p_worker_id, p_outbox_ids, p_lease_tokens);
    v_now := clock_timestamp();

    UPDATE public.payment_outbox_pending AS p
    SET lease_expires_at = greatest(p.lease_expires_at, v_now + make_interval(secs => p_lease_seconds))
    FROM unnest(p_outbox_ids, p_lease_tokens) AS u(outbox_id, lease_token)
    WHERE p.outbox_id = u.outbox_id AND p.lease_token = u.lease_token
        AND (p.claimed_by = p_worker_id AND p.lease_expires_at > v_now) IS TRUE;
    RETURN QUERY
        SELECT u.ordinal, u.outbox_id,
            CASE WHEN p.outbox_id IS NULL THEN 'lease_lost' ELSE 'done' END, p.lease_expires_at
        FROM unnest(p_outbox_ids, p_lease_tokens) WITH ORDINALITY AS u(outbox_id, lease_token, ordinal)
        LEFT JOIN public.payment_outbox_pending AS p
            ON p.outbox_id = u.outbox_id AND p.lease_token = u.lease_token
                AND (p.claimed_by = p_worker_id AND p.lease_expires_at > v_now) IS TRUE
        ORDER BY u.ordinal;
END
$$;
COMMENT ON FUNCTION public.extend_outbox_leases(text, uuid[], uuid[], integer) IS
    'Extends only what is still leased once the row is locked; a lease that is over stays over.';
