-- Ends an intent, in a fenced transaction that has seen that it must not be tried again: its deadline has passed,
-- or it is a one-shot that a leader of another term began, and such are not repeated.
UPDATE submission_intents
SET status = 'exhausted',
    exhausted_reason = CASE WHEN policy = 'one_shot' THEN 'one_shot' ELSE 'deadline_exceeded' END,
    attempt_count = coalesce(reserved_attempt, attempt_count),
    reserved_attempt = NULL,
    reserved_at = NULL,
    reserved_epoch = NULL,
    webhook_status = CASE WHEN webhook_url IS NOT NULL THEN 'pending' END,
    next_attempt_at = NULL,
    completed_at = :now,
    updated_at = :now,
    last_modified_at = max(:now, last_modified_at + 1),
    version = version + 1,
    modified_number = :number
WHERE row_number = :row_number
RETURNING version, webhook_url IS NOT NULL AS has_webhook, exhausted_reason, created_at, completed_at
