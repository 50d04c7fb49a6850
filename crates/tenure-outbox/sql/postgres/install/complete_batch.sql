-- Records the outcomes of many attempts in one go. The answer has a row per outcome, in their order: result
--   'done'          recorded; RETRYABLE at the ceiling is recorded as FAILED, and state says so
--   'repeat'        was recorded before under this very lease: attempt_no and state as they were recorded
--   'lease_lost'    the row is not leased to this worker under this token, or the lease is over
--   'invalid_state' the state is none that a worker may tell
-- Whatever a row is answered with, it does not touch the others. The lists of details may be left out.
-- SQLSTATE 22023: the lists are not equally long.
CREATE OR REPLACE FUNCTION public.complete_outbox_attempts(
    p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[], p_states public.outbox_attempt_state[],
    p_rail_references text[] = NULL, p_rail_codes text[] = NULL, p_error_codes text[] = NULL,
    p_error_messages text[] = NULL, p_latencies_ms integer[] = NULL, p_retry_delays_seconds integer[] = NULL
) RETURNS TABLE (
    ordinal bigint, outbox_id uuid, result text, attempt_no integer, state public.outbox_attempt_state
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_mergejoin = off
SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
DECLARE
    v_count integer := cardinality(p_outbox_ids);
    v_ceiling integer := public.outbox_retry_ceiling();
    v_now timestamp with time zone;
    v_ordinals bigint[];
    v_ids pg_catalog.uuid[];
    v_numbers integer[];
    v_states public.outbox_attempt_state[];
BEGIN
    IF cardinality(p_lease_tokens) IS DISTINCT FROM v_count OR cardinality(p_states) IS DISTINCT FROM v_count
        OR coalesce(cardinality(p_rail_references), v_count) <> v_count
        OR coalesce(cardinality(p_rail_codes), v_count) <> v_count
        OR coalesce(cardinality(p_error_codes), v_count) <> v_count
        OR coalesce(cardinality(p_error_messages), v_count) <> v_count
        OR coalesce(cardinality(p_latencies_ms), v_count) <> v_count
        OR coalesce(cardinality(p_retry_delays_seconds), v_count) <> v_count
    THEN
        RAISE EXCEPTION 'the lists of a batch must be equally long' USING ERRCODE = 'invalid_parameter_value';
    END IF;

    -- Locked first, in one order, and the clock read afterwards: whoever waited here for longer than its lease
    -- has lost it.
    PERFORM public.lock_outbox_leases(p_worker_id, p_outbox_ids, p_lease_tokens);
    v_now := clock_timestamp();

    WITH told AS MATERIALIZED (
        SELECT u.*, CASE WHEN u.state = 'RETRYABLE' AND u.attempt_no >= v_ceiling THEN 'FAILED'
            ELSE u.state END AS final
        FROM (
            SELECT DISTINCT ON (u.outbox_id, u.lease_token) u.*, (
                SELECT coalesce(max(a.attempt_no), 0) + 1 FROM public.payment_outbox_attempts AS a
                WHERE a.outbox_id = u.outbox_id
            ) AS attempt_no
            FROM unnest(
                p_outbox_ids, p_lease_tokens, p_states, p_rail_references, p_rail_codes, p_error_codes,
                p_error_messages, p_latencies_ms, p_retry_delays_seconds
            ) WITH ORDINALITY AS u(
                outbox_id, lease_token, state, rail_reference, rail_code, error_code,
                error_message, latency_ms, retry_delay_seconds, ordinal
            )
            -- Of what is told twice the first counts; what nobody may tell does not stand in the way.
            WHERE u.state IN ('DISPATCHED', 'RETRYABLE', 'FAILED')
            ORDER BY u.outbox_id, u.lease_token, u.ordinal
        ) AS u
    ), removed AS (
        DELETE FROM public.payment_outbox_pending AS p USING told AS t
        WHERE p.outbox_id = t.outbox_id AND p.lease_token = t.lease_token AND t.final IN ('DISPATCHED', 'FAILED')
            AND (p.claimed_by = p_worker_id AND p.lease_expires_at > v_now) IS TRUE
        RETURNING p.instruction_id, p.participant_id, p.sequence_id, p.idempotency_key, p.rail_type, p.payload,
            p.claimed_at, p.created_at, t.*
    ), rescheduled AS (
        UPDATE public.payment_outbox_pending AS p
        SET claimed_by = NULL,
            lease_token = NULL,
            lease_expires_at = NULL,
            next_attempt_at = v_now + make_interval(secs => greatest(0, coalesce(t.retry_delay_seconds, 1))),
            attempt_count = greatest(p.attempt_count, t.attempt_no)
        FROM told AS t
        WHERE p.outbox_id = t.outbox_id AND p.lease_token = t.lease_token AND t.final = 'RETRYABLE'
            AND (p.claimed_by = p_worker_id AND p.lease_expires_at > v_now) IS TRUE
        RETURNING p.instruction_id, p.participant_id, p.sequence_id, p.idempotency_key, p.rail_type, p.payload,
            p.claimed_at, p.created_at, t.*
    ), done AS MATERIALIZED (
        SELECT * FROM removed UNION ALL SELECT * FROM rescheduled
    ), appended AS (
        INSERT INTO public.payment_outbox_attempts (
            attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type,
            payload, attempt_no, state, claimed_at, completed_at, rail_reference, rail_code, error_code,
            error_message, latency_ms, worker_id, created_at, lease_token, enqueued_at
        )
        SELECT uuidv7(), d.outbox_id, d.instruction_id, d.participant_id, d.sequence_id, d.idempotency_key,
            d.rail_type, d.payload, d.attempt_no, d.final, coalesce(d.claimed_at, v_now), v_now,
            d.rail_reference, d.rail_code,
            CASE WHEN d.final = d.state THEN d.error_code ELSE 'RETRY_CEILING_EXCEEDED' END,
            d.error_message, d.latency_ms, p_worker_id, v_now, d.lease_token, d.created_at
        FROM done AS d
    )
    SELECT array_agg(d.ordinal), array_agg(d.outbox_id), array_agg(d.attempt_no), array_agg(d.final)
    INTO v_ordinals, v_ids, v_numbers, v_states
    FROM done AS d;

    IF cardinality(v_ordinals) = v_count THEN
        RETURN QUERY
            SELECT d.ordinal, d.outbox_id, 'done', d.attempt_no, d.state
            FROM unnest(v_ordinals, v_ids, v_numbers, v_states) AS d(ordinal, outbox_id, attempt_no, state)
            ORDER BY d.ordinal;
        RETURN;
    END IF;

    RETURN QUERY
        SELECT u.ordinal, u.outbox_id,
            CASE WHEN d.ordinal IS NOT NULL THEN 'done' WHEN a.attempt_no IS NOT NULL THEN 'repeat'
                WHEN p.outbox_id IS NOT NULL THEN 'invalid_state' ELSE 'lease_lost' END,
            coalesce(d.attempt_no, a.attempt_no), coalesce(d.state, a.state)
        FROM unnest(p_outbox_ids, p_lease_tokens) WITH ORDINALITY AS u(outbox_id, lease_token, ordinal)
        LEFT JOIN unnest(v_ordinals, v_numbers, v_states) AS d(ordinal, attempt_no, state) ON d.ordinal = u.ordinal
        LEFT JOIN LATERAL (
            SELECT a.attempt_no, a.state FROM public.payment_outbox_attempts AS a
            WHERE d.ordinal IS NULL AND a.outbox_id = u.outbox_id AND a.lease_token = u.lease_token
                AND a.worker_id = p_worker_id
            LIMIT 1
        ) AS a ON true
        LEFT JOIN LATERAL (
            SELECT p.outbox_id FROM public.payment_outbox_pending AS p
            WHERE d.ordinal IS NULL AND p.outbox_id = u.outbox_id AND p.lease_token = u.lease_token
                AND (p.claimed_by = p_worker_id AND p.lease_expires_at > v_now) IS TRUE
            LIMIT 1
        ) AS p ON true
        ORDER BY u.ordinal;
END
$$;
COMMENT ON FUNCTION public.complete_outbox_attempts(
    text, uuid[], uuid[], public.outbox_attempt_state[], text[], text[], text[], text[], integer[], integer[]
) IS
    'The one place where an outcome becomes an attempt. The lease is tested before the state, after the row is locked; a terminal attempt and the removal of its row are one statement.';
