-- What was tried for an intent, in order.
-- $1 text: intent_id.
SELECT attempt_number, started_at, finished_at, outcome_status, outcome_reason, error,
       coalesce(key_number, attempt_number) AS key_number
FROM public.submission_attempts
WHERE intent_id = $1
ORDER BY attempt_number
