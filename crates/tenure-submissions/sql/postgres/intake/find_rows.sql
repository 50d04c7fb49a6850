-- Intents by the numbers of their rows, for whoever waits for them.
-- $1 bigint[]: rows.
SELECT intent_id, row_number, submission_target, payload_hash, created_at, status, completed_at,
       final_outcome_reason, exhausted_reason, attempt_count
FROM public.submission_intents
WHERE row_number = ANY ($1::bigint[])
