-- Appends the attempt that a leader began and did not live to record, its outcome unknown; before its intent is
-- ended.
INSERT INTO submission_attempts (intent_id, attempt_number, started_at, finished_at, error, key_number)
SELECT intent_id, reserved_attempt, reserved_at, :now, 'outcome unknown', held_key
FROM submission_intents
WHERE row_number = :row_number AND reserved_attempt IS NOT NULL
