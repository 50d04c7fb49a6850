-- Records the outcome of one attempt: what complete_outbox_attempts does for many, with errors for answers.
-- SQLSTATE P7002 (LEASE_LOST): the row is not leased to this worker under this token, or the lease is over;
-- P7003: the state is none that a worker may tell.
CREATE OR REPLACE FUNCTION public.complete_outbox_attempt(
    p_outbox_id uuid, p_lease_token uuid, p_worker_id text, p_state public.outbox_attempt_state,
    p_rail_reference text = NULL, p_rail_code text = NULL, p_error_code text = NULL, p_error_message text = NULL,
    p_latency_ms integer = NULL, p_retry_delay_seconds integer = 1
) RETURNS TABLE (attempt_no integer, state public.outbox_attempt_state)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public
AS $$
#variable_conflict use_column
DECLARE
    v_result pg_catalog.text;
    v_number integer;
    v_state public.outbox_attempt_state;
BEGIN
    SELECT c.result, c.attempt_no, c.state INTO v_result, v_number, v_state
    FROM public.complete_outbox_attempts(
        p_worker_id, ARRAY[p_outbox_id], ARRAY[p_lease_token], ARRAY[p_state], ARRAY[p_rail_reference],
        ARRAY[p_rail_code], ARRAY[p_error_code], ARRAY[p_error_message], ARRAY[p_latency_ms],
        ARRAY[p_retry_delay_seconds]
    ) AS c;
    CASE v_result
        WHEN 'done' THEN
            RETURN QUERY SELECT v_number, v_state;
        WHEN 'invalid_state' THEN
            RAISE EXCEPTION 'INVALID_COMPLETION_STATE'
                USING ERRCODE = 'P7003', DETAIL = format('%s is not DISPATCHED, RETRYABLE or FAILED', p_state);
        ELSE
            RAISE EXCEPTION 'LEASE_LOST'
                USING ERRCODE = 'P7002', DETAIL = format('outbox_id %s, worker %s', p_outbox_id, p_worker_id);
    END CASE;
END
$$;
COMMENT ON FUNCTION public.complete_outbox_attempt(
    uuid, uuid, text, public.outbox_attempt_state, text, text, text, text, integer, integer
) IS
    'P7002 LEASE_LOST comes before P7003; RETRYABLE at the ceiling is recorded as FAILED.';
