-- What an intent is, before it is taken for an attempt.
SELECT version, next_attempt_at, reserved_attempt IS NOT NULL AS was_reserved,
       status = 'pending' AND next_attempt_at <= :now AS is_due,
       status = 'pending'
           AND (coalesce(created_at + max_acceptance_seconds * 1000000 <= :now, false)
                OR coalesce(policy = 'one_shot' AND reserved_epoch <> :epoch AND NOT :repeats, false)) AS is_over
FROM submission_intents
WHERE row_number = :row_number
