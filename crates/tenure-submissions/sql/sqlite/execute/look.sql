-- What an intent is, before it is taken for an attempt.
SELECT version, next_attempt_at, reserved_attempt IS NOT NULL AS was_reserved,
       status = 'pending' AND next_attempt_at <= :now AS is_due,
       status = 'pending' AND max_acceptance_seconds IS NOT NULL
           AND created_at + max_acceptance_seconds * 1000000 <= :now AS is_late
FROM submission_intents
WHERE row_number = :row_number
