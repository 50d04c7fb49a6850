-- An intent by its id.
SELECT intent_id, row_number, submission_target, payload_hash, created_at, status, completed_at,
       final_outcome_reason, exhausted_reason, attempt_count
FROM submission_intents
WHERE intent_id = :intent_id
