-- Intents by their ids, for whoever asks for them or has met them.
-- $1 text[]: ids.
SELECT intent_id, row_number, submission_target, payload_hash, created_at, status, completed_at,
       final_outcome_reason, exhausted_reason, attempt_count
FROM public.submission_intents
WHERE intent_id = ANY ($1::text[])
