-- Records the outcomes of attempts, in a fenced transaction: the intent goes on and the attempt is appended, or
-- neither. One row for each; one that has moved on is left out.
-- $1 bigint[]: rows, $2 integer[]: attempt numbers, $3 timestamptz[]: started, $4 timestamptz[]: finished,
-- $5 text[]: outcome_status, $6 text[]: outcome_reason, $7 text[]: error,
-- $8 text[]: the intent's status from now on, $9 text[]: exhausted_reason, $10 timestamptz[]: next_attempt_at,
-- $11 integer[]: the number in the key that was sent, or null for the attempt's own, $12 integer[]: the key that is held.
-- No attempt has finished after it was recorded: both are told by the database's clock.
WITH input AS MATERIALIZED (
    SELECT *
    FROM unnest($1::bigint[], $2::integer[], $3::timestamptz[], $4::timestamptz[], $5::text[], $6::text[],
                $7::text[], $8::text[], $9::text[], $10::timestamptz[], $11::integer[], $12::integer[])
         AS n(row_number, attempt_number, started_at, finished_at, outcome_status, outcome_reason, error,
              status, exhausted_reason, next_attempt_at, key_number, held_key)
), clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), moved AS (
    UPDATE public.submission_intents AS i
    SET status = n.status,
        attempt_count = n.attempt_number,
        reserved_attempt = NULL,
        reserved_at = NULL,
        reserved_epoch = NULL,
        held_key = n.held_key,
        final_outcome_status = CASE WHEN n.status <> 'pending' THEN n.outcome_status END,
        final_outcome_reason = CASE WHEN n.status <> 'pending' THEN n.outcome_reason END,
        exhausted_reason = n.exhausted_reason,
        webhook_status =
            CASE WHEN n.status <> 'pending' AND i.webhook_url IS NOT NULL THEN 'pending' END,
        next_attempt_at = n.next_attempt_at,
        completed_at = CASE WHEN n.status <> 'pending' THEN clock.now END,
        updated_at = clock.now,
        last_modified_at = clock.now,
        version = i.version + 1,
        modified_xid = pg_current_xact_id()
    FROM input AS n CROSS JOIN clock
    WHERE i.row_number = n.row_number
      AND i.status = 'pending'
      AND i.reserved_attempt = n.attempt_number
      AND i.attempt_count = n.attempt_number - 1
    RETURNING i.row_number, i.intent_id, i.version, i.next_attempt_at, i.webhook_status, i.completed_at
), appended AS (
    INSERT INTO public.submission_attempts (
        intent_id, attempt_number, started_at, finished_at, outcome_status, outcome_reason, error, key_number
    )
    SELECT moved.intent_id, n.attempt_number, n.started_at, greatest(n.started_at, least(n.finished_at, clock.now)),
           n.outcome_status, n.outcome_reason, n.error, n.key_number
    FROM clock CROSS JOIN moved JOIN input AS n ON n.row_number = moved.row_number
), told AS MATERIALIZED (
    -- Whoever waits for one of them hears of it when this commits. A notification is 8000 bytes at most.
    SELECT count(pg_notify('submission_done', part.rows))
    FROM (
        SELECT string_agg(row_number::text, ',') AS rows
        FROM (SELECT row_number, (row_number() OVER () - 1) / 300 AS part FROM moved) AS numbered
        GROUP BY numbered.part
    ) AS part
)
SELECT moved.row_number, moved.version, moved.next_attempt_at, moved.webhook_status IS NOT NULL AS has_webhook,
       moved.completed_at
FROM moved CROSS JOIN told
