-- Takes webhooks for their one attempt, in a fenced transaction, with all that is to be sent. One row for each
-- that nobody began before.
-- $1 bigint[]: rows.
UPDATE public.submission_intents
SET webhook_attempted_at = clock_timestamp(),
    updated_at = clock_timestamp(),
    last_modified_at = clock_timestamp(),
    version = version + 1,
    modified_xid = pg_current_xact_id()
WHERE row_number = ANY ($1::bigint[]) AND webhook_status = 'pending' AND webhook_attempted_at IS NULL
RETURNING row_number, intent_id, submission_target, payload_hash, created_at, status, completed_at,
          final_outcome_reason, exhausted_reason, attempt_count, webhook_url, webhook_headers,
          webhook_headers_env, webhook_secret_env, webhook_attempted_at
