-- Moves an intent on after an attempt, in a fenced transaction. One row, unless it has moved on already.
UPDATE submission_intents
SET status = :status,
    attempt_count = :attempt_number,
    reserved_attempt = NULL,
    reserved_at = NULL,
    reserved_epoch = NULL,
    held_key = :held_key,
    final_outcome_status = CASE WHEN :status <> 'pending' THEN :outcome_status END,
    final_outcome_reason = CASE WHEN :status <> 'pending' THEN :outcome_reason END,
    exhausted_reason = :exhausted_reason,
    webhook_status = CASE WHEN :status <> 'pending' AND webhook_url IS NOT NULL THEN 'pending' END,
    next_attempt_at = :next_attempt_at,
    completed_at = CASE WHEN :status <> 'pending' THEN :now END,
    updated_at = :now,
    last_modified_at = max(:now, last_modified_at + 1),
    version = version + 1,
    modified_number = :number
WHERE row_number = :row_number
  AND status = 'pending'
  AND reserved_attempt = :attempt_number
  AND attempt_count = :attempt_number - 1
RETURNING intent_id, version, next_attempt_at, webhook_status IS NOT NULL AS has_webhook
