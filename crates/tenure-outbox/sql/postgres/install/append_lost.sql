-- Appends an attempt for every pending row in the list, whose lease is over and which the caller has locked:
-- ZOMBIE_REQUEUE, or at the ceiling FAILED, and then the row is removed. What remains is for the caller to
-- lease or to reschedule. A row that has ended already, which only somebody who writes past the functions can
-- bring about, is removed without another attempt: it must not stand in the way of all others.
-- Only for the functions beside it.
CREATE OR REPLACE FUNCTION public.append_lost_outbox_attempts(
    p_outbox_ids uuid[], p_worker_id text, p_now timestamptz
) RETURNS TABLE (outbox_id uuid, attempt_no integer, state public.outbox_attempt_state)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH lost AS MATERIALIZED (
        SELECT p.*, (
            SELECT coalesce(max(a.attempt_no), 0) + 1 FROM public.payment_outbox_attempts AS a
            WHERE a.outbox_id = p.outbox_id
        ) AS next_no, (
            SELECT true FROM public.payment_outbox_attempts AS a
            WHERE a.outbox_id = p.outbox_id AND a.state IN ('DISPATCHED', 'FAILED')
        ) IS TRUE AS has_ended
        FROM unnest(p_outbox_ids) AS u(outbox_id)
        JOIN public.payment_outbox_pending AS p ON p.outbox_id = u.outbox_id
    ), appended AS (
        INSERT INTO public.payment_outbox_attempts AS a (
            attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type,
            payload, attempt_no, state, claimed_at, completed_at, error_code, error_message, worker_id,
            created_at, enqueued_at
        )
        SELECT uuidv7(), l.outbox_id, l.instruction_id, l.participant_id, l.sequence_id, l.idempotency_key,
            l.rail_type, l.payload, l.next_no,
            CASE WHEN l.next_no >= c.ceiling THEN 'FAILED' ELSE 'ZOMBIE_REQUEUE' END::public.outbox_attempt_state,
            coalesce(l.claimed_at, p_now), p_now,
            CASE WHEN l.next_no >= c.ceiling THEN 'RETRY_CEILING_EXCEEDED' ELSE 'LEASE_EXPIRED' END,
            format('the lease of worker %s expired', l.claimed_by), p_worker_id, p_now, l.created_at
        FROM lost AS l CROSS JOIN (SELECT public.outbox_retry_ceiling() AS ceiling OFFSET 0) AS c
        WHERE NOT l.has_ended
        RETURNING a.outbox_id, a.attempt_no, a.state
    ), removed AS (
        DELETE FROM public.payment_outbox_pending AS p USING lost AS l
        WHERE p.outbox_id = l.outbox_id
            AND (l.has_ended OR l.next_no >= (SELECT public.outbox_retry_ceiling() OFFSET 0))
    )
    SELECT a.outbox_id, a.attempt_no, a.state FROM appended AS a;
END
$$;
