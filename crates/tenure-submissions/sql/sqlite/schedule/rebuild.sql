-- All pending intents.
SELECT row_number, version, next_attempt_at FROM submission_intents WHERE status = 'pending'
