-- Ends intents that must not be tried again, in a fenced transaction: those whose deadline has passed by the
-- database's clock, and one-shots that a leader of another term began, where such are not repeated. The attempt
-- that was begun is appended, its outcome unknown. One row for each.
-- $1 bigint[]: rows, $2 bigint: epoch, $3 boolean: whether one-shots are repeated.
WITH picked AS MATERIALIZED (
    SELECT row_number, reserved_attempt, reserved_at
    FROM public.submission_intents
    WHERE row_number = ANY ($1::bigint[])
    ORDER BY row_number
    FOR UPDATE
), clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now FROM (SELECT count(*) FROM picked) AS locked
), ended AS (
    UPDATE public.submission_intents AS i
    SET status = 'exhausted',
        exhausted_reason = CASE WHEN i.policy = 'one_shot' THEN 'one_shot' ELSE 'deadline_exceeded' END,
        attempt_count = coalesce(i.reserved_attempt, i.attempt_count),
        reserved_attempt = NULL,
        reserved_at = NULL,
        reserved_epoch = NULL,
        webhook_status = CASE WHEN i.webhook_url IS NOT NULL THEN 'pending' END,
        next_attempt_at = NULL,
        completed_at = clock.now,
        updated_at = clock.now,
        last_modified_at = clock.now,
        version = i.version + 1,
        modified_xid = pg_current_xact_id()
    FROM picked CROSS JOIN clock
    WHERE i.row_number = picked.row_number
      AND i.status = 'pending'
      AND (i.created_at + i.max_acceptance_seconds * interval '1 second' <= clock.now
           OR (i.policy = 'one_shot' AND i.reserved_epoch <> $2 AND NOT $3))
    RETURNING i.row_number, i.version, i.intent_id, i.webhook_url, i.exhausted_reason, i.created_at,
              i.completed_at, i.held_key, picked.reserved_attempt, picked.reserved_at
), appended AS (
    INSERT INTO public.submission_attempts (intent_id, attempt_number, started_at, finished_at, error, key_number)
    SELECT intent_id, reserved_attempt, reserved_at, completed_at, 'outcome unknown', held_key
    FROM ended
    WHERE reserved_attempt IS NOT NULL
), told AS MATERIALIZED (
    SELECT count(pg_notify('submission_done', part.rows))
    FROM (
        SELECT string_agg(row_number::text, ',') AS rows
        FROM (SELECT row_number, (row_number() OVER () - 1) / 300 AS part FROM ended) AS numbered
        GROUP BY numbered.part
    ) AS part
)
SELECT row_number, version, webhook_url IS NOT NULL AS has_webhook, exhausted_reason, created_at, completed_at
FROM ended CROSS JOIN told
