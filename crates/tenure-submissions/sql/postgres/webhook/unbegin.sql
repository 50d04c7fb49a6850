-- Gives back webhooks that this term has taken and not sent, in a fenced transaction.
-- $1 bigint[]: rows.
UPDATE public.submission_intents
SET webhook_attempted_at = NULL,
    updated_at = clock_timestamp(),
    last_modified_at = clock_timestamp(),
    version = version + 1,
    modified_xid = pg_current_xact_id()
WHERE row_number = ANY ($1::bigint[]) AND webhook_status = 'pending'
RETURNING row_number
