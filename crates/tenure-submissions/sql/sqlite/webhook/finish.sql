-- Keeps the result of a webhook, in a fenced transaction. One that a leader began and did not live to record
-- has failed: nobody knows whether it arrived, and it is not sent again.
UPDATE submission_intents
SET webhook_status = CASE WHEN :error IS NULL THEN 'delivered' ELSE 'failed' END,
    webhook_delivered_at = CASE WHEN :error IS NULL THEN :now END,
    webhook_error = :error,
    updated_at = :now,
    last_modified_at = max(:now, last_modified_at + 1),
    version = version + 1,
    modified_number = :number
WHERE row_number = :row_number AND webhook_status = 'pending' AND webhook_attempted_at IS NOT NULL
