-- Takes back up to p_batch_size leases that have expired, those longest over first: appends ZOMBIE_REQUEUE and
-- makes the row due in one second; at the ceiling appends FAILED (RETRY_CEILING_EXCEEDED) and removes the row.
-- Returns what it appended.
-- SQLSTATE 22023: a parameter is missing or not above 0.
CREATE OR REPLACE FUNCTION public.repair_expired_leases(p_batch_size integer, p_worker_id text)
RETURNS TABLE (outbox_id uuid, attempt_no integer)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_sort = off
SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamp with time zone := clock_timestamp();
    v_ids pg_catalog.uuid[];
    v_numbers integer[];
BEGIN
    IF coalesce(p_batch_size, 0) < 1 OR coalesce(p_worker_id, '') = '' THEN
        RAISE EXCEPTION 'p_batch_size must be above 0, and p_worker_id must not be blank'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    SELECT array_agg(e.outbox_id) INTO v_ids
    FROM (
        SELECT p.outbox_id FROM public.payment_outbox_pending AS p
        WHERE p.lease_expires_at <= v_now
        ORDER BY p.lease_expires_at
        LIMIT p_batch_size
        FOR UPDATE SKIP LOCKED
    ) AS e;
    IF v_ids IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(l.outbox_id), array_agg(l.attempt_no) INTO v_ids, v_numbers
    FROM public.append_lost_outbox_attempts(v_ids, p_worker_id, v_now) AS l;

    UPDATE public.payment_outbox_pending AS p
    SET claimed_by = NULL,
        lease_token = NULL,
        lease_expires_at = NULL,
        next_attempt_at = v_now + interval '1 second',
        attempt_count = greatest(p.attempt_count, u.attempt_no)
    FROM unnest(v_ids, v_numbers) AS u(outbox_id, attempt_no)
    WHERE p.outbox_id = u.outbox_id;
    RETURN QUERY SELECT u.* FROM unnest(v_ids, v_numbers) AS u(outbox_id, attempt_no);
END
$$;
COMMENT ON FUNCTION public.repair_expired_leases(integer, text) IS
    'Records a lost attempt for every expired lease; at the ceiling the row ends FAILED.';
