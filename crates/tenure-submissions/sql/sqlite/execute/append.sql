-- Appends an attempt, in the transaction that moved its intent on. It has not finished after that was.
INSERT INTO submission_attempts (
    intent_id, attempt_number, started_at, finished_at, outcome_status, outcome_reason, error, key_number
)
VALUES (
    :intent_id, :attempt_number, :started_at, max(:started_at, min(:finished_at, :now)), :outcome_status, :outcome_reason,
    :error, :key_number
)
