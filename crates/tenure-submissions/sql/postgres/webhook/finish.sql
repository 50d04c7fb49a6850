-- Keeps the results of webhooks, in a fenced transaction. A webhook that a leader began and did not live to
-- record has failed: nobody knows whether it arrived, and it is not sent again.
-- $1 bigint[]: rows, $2 text[]: errors, null for what was delivered.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::text[]) AS n(row_number, error)
), clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
)
UPDATE public.submission_intents AS i
SET webhook_status = CASE WHEN n.error IS NULL THEN 'delivered' ELSE 'failed' END,
    webhook_delivered_at = CASE WHEN n.error IS NULL THEN clock.now END,
    webhook_error = n.error,
    updated_at = clock.now,
    last_modified_at = clock.now,
    version = i.version + 1,
    modified_xid = pg_current_xact_id()
FROM input AS n CROSS JOIN clock
WHERE i.row_number = n.row_number AND i.webhook_status = 'pending' AND i.webhook_attempted_at IS NOT NULL
RETURNING i.row_number
