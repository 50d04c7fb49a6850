-- Stores an intent, unless its id is taken. One row when it was stored.
INSERT INTO submission_intents (
    intent_id, submission_target, payload, payload_hash, gateway_type, gateway_url, policy,
    max_acceptance_seconds, max_attempts, terminal_outcomes, webhook_url, webhook_headers,
    webhook_headers_env, webhook_secret_env, created_at, updated_at, last_modified_at, next_attempt_at,
    modified_number
)
VALUES (
    :intent_id, :submission_target, :payload, :payload_hash, :gateway_type, :gateway_url, :policy,
    :max_acceptance_seconds, :max_attempts, :terminal_outcomes, :webhook_url, :webhook_headers,
    :webhook_headers_env, :webhook_secret_env, :now, :now, :now, :now,
    :number
)
ON CONFLICT (intent_id) DO NOTHING
RETURNING row_number
