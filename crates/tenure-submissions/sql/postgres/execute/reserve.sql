-- Takes intents for one attempt each, in a fenced transaction. One row for each that is still pending, due and
-- in time by the database's clock, with all that the attempt needs.
-- $1 bigint[]: rows, $2 bigint: epoch, $3 boolean: whether one-shots that a leader of another term began are
-- repeated.
WITH picked AS MATERIALIZED (
    SELECT row_number, reserved_attempt IS NOT NULL AS was_reserved
    FROM public.submission_intents
    WHERE row_number = ANY ($1::bigint[])
    ORDER BY row_number
    FOR UPDATE
), clock AS MATERIALIZED (
    -- After the locks.
    SELECT clock_timestamp() AS now FROM (SELECT count(*) FROM picked) AS locked
)
UPDATE public.submission_intents AS i
SET reserved_attempt = i.attempt_count + 1,
    reserved_at = clock.now,
    reserved_epoch = $2,
    updated_at = clock.now,
    last_modified_at = clock.now,
    version = i.version + 1,
    modified_xid = pg_current_xact_id()
FROM picked CROSS JOIN clock
WHERE i.row_number = picked.row_number
  AND i.status = 'pending'
  AND i.next_attempt_at <= clock.now
  AND (i.max_acceptance_seconds IS NULL
       OR i.created_at + i.max_acceptance_seconds * interval '1 second' > clock.now)
  AND ($3 OR i.policy <> 'one_shot' OR i.reserved_epoch IS NULL OR i.reserved_epoch = $2)
RETURNING i.row_number, i.version, i.intent_id, i.submission_target, i.payload, i.gateway_type,
          i.gateway_url, i.policy, i.max_acceptance_seconds, i.max_attempts, i.terminal_outcomes,
          i.webhook_url, i.reserved_attempt, i.held_key, i.created_at, i.next_attempt_at, clock.now AS started_at,
          picked.was_reserved
