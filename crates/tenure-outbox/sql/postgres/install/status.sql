-- The outbox at a glance: one row. An instruction counts by its latest attempt, which is its terminal one when
-- it is finished, and the latest of a pending row otherwise.
DO $$
BEGIN
    -- A view with other columns cannot be replaced.
    IF (
        SELECT pg_catalog.array_agg(attname::text ORDER BY attnum) <> ARRAY[
            'generated_at', 'pending_count', 'due_pending_count', 'leased_count', 'expired_lease_count',
            'due_unleased_count', 'dispatched_count', 'failed_count', 'retryable_count', 'dlq_count', 'attempt_1',
            'attempt_2', 'attempt_3', 'attempt_4', 'attempt_5_plus', 'oldest_pending_age_seconds',
            'dispatched_last_hour', 'failed_last_hour', 'view_version'
        ]
        FROM pg_catalog.pg_attribute
        WHERE attrelid = pg_catalog.to_regclass('public.supervisor_outbox_status')
    ) THEN
        DROP VIEW public.supervisor_outbox_status;
    END IF;
END
$$;
CREATE OR REPLACE VIEW public.supervisor_outbox_status AS
WITH pending AS (
    SELECT count(*) AS pending_count,
        count(*) FILTER (WHERE p.next_attempt_at <= now()) AS due_pending_count,
        count(*) FILTER (WHERE p.lease_expires_at > now()) AS leased_count,
        count(*) FILTER (WHERE p.lease_expires_at <= now()) AS expired_lease_count,
        count(*) FILTER (WHERE p.next_attempt_at <= now() AND p.lease_expires_at IS NULL) AS due_unleased_count,
        extract(epoch FROM now() - min(p.created_at))::integer AS oldest_pending_age_seconds
    FROM public.payment_outbox_pending AS p
), latest AS (
    SELECT a.state, a.attempt_no
    FROM public.payment_outbox_attempts AS a
    WHERE a.state IN ('DISPATCHED', 'FAILED')
    UNION ALL
    SELECT l.state, l.attempt_no
    FROM public.payment_outbox_pending AS p
    CROSS JOIN LATERAL (
        SELECT a.state, a.attempt_no FROM public.payment_outbox_attempts AS a
        WHERE a.outbox_id = p.outbox_id
        ORDER BY a.attempt_no DESC LIMIT 1
    ) AS l
), attempts AS (
    SELECT count(*) FILTER (WHERE l.state = 'DISPATCHED') AS dispatched_count,
        count(*) FILTER (WHERE l.state = 'FAILED') AS failed_count,
        count(*) FILTER (WHERE l.state = 'RETRYABLE') AS retryable_count,
        count(*) FILTER (WHERE l.state = 'FAILED' AND l.attempt_no >= 5) AS dlq_count,
        count(*) FILTER (WHERE l.attempt_no = 1) AS attempt_1,
        count(*) FILTER (WHERE l.attempt_no = 2) AS attempt_2,
        count(*) FILTER (WHERE l.attempt_no = 3) AS attempt_3,
        count(*) FILTER (WHERE l.attempt_no = 4) AS attempt_4,
        count(*) FILTER (WHERE l.attempt_no >= 5) AS attempt_5_plus
    FROM latest AS l
), last_hour AS (
    SELECT count(*) FILTER (WHERE a.state = 'DISPATCHED') AS dispatched_last_hour,
        count(*) FILTER (WHERE a.state = 'FAILED') AS failed_last_hour
    FROM public.payment_outbox_attempts AS a
    WHERE a.completed_at >= now() - interval '1 hour'
)
SELECT now() AS generated_at,
    p.pending_count, p.due_pending_count, p.leased_count, p.expired_lease_count, p.due_unleased_count,
    a.dispatched_count, a.failed_count, a.retryable_count, a.dlq_count,
    a.attempt_1, a.attempt_2, a.attempt_3, a.attempt_4, a.attempt_5_plus,
    p.oldest_pending_age_seconds,
    h.dispatched_last_hour, h.failed_last_hour,
    'tenure-1'::text AS view_version
FROM pending AS p CROSS JOIN attempts AS a CROSS JOIN last_hour AS h;
COMMENT ON VIEW public.supervisor_outbox_status IS
    'The outbox at a glance. dlq_count: instructions that failed after five attempts or more.';
