-- What was tried for an intent, in order.
SELECT attempt_number, started_at, finished_at, outcome_status, outcome_reason, error,
       coalesce(key_number, attempt_number) AS key_number
FROM submission_attempts
WHERE intent_id = :intent_id
ORDER BY attempt_number
