-- Takes a webhook for its one attempt, in a fenced transaction, with all that is to be sent. One row, unless
-- somebody began before.
UPDATE submission_intents
SET webhook_attempted_at = :now,
    updated_at = :now,
    last_modified_at = max(:now, last_modified_at + 1),
    version = version + 1,
    modified_number = :number
WHERE row_number = :row_number AND webhook_status = 'pending' AND webhook_attempted_at IS NULL
RETURNING row_number, intent_id, submission_target, payload_hash, created_at, status, completed_at,
          final_outcome_reason, exhausted_reason, attempt_count, webhook_url, webhook_headers,
          webhook_headers_env, webhook_secret_env, webhook_attempted_at
