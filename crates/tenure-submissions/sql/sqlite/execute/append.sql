-- Appends an attempt, in the transaction that moved its intent on.
INSERT INTO submission_attempts (
    intent_id, attempt_number, started_at, finished_at, outcome_status, outcome_reason, error
)
VALUES (:intent_id, :attempt_number, :started_at, :finished_at, :outcome_status, :outcome_reason, :error)
