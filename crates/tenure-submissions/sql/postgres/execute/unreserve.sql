-- Gives back intents that this term has taken and for which nobody was called, in a fenced transaction.
-- $1 bigint[]: rows, $2 bigint: epoch.
UPDATE public.submission_intents
SET reserved_attempt = NULL,
    reserved_at = NULL,
    reserved_epoch = NULL,
    updated_at = clock_timestamp(),
    last_modified_at = clock_timestamp(),
    version = version + 1,
    modified_xid = pg_current_xact_id()
WHERE row_number = ANY ($1::bigint[]) AND status = 'pending' AND reserved_epoch = $2
RETURNING row_number
