-- Takes an intent for one attempt, in a fenced transaction that has seen it due and in time; with all that the
-- attempt needs.
UPDATE submission_intents
SET reserved_attempt = attempt_count + 1,
    reserved_at = :now,
    reserved_epoch = :epoch,
    updated_at = :now,
    last_modified_at = max(:now, last_modified_at + 1),
    version = version + 1,
    modified_number = :number
WHERE row_number = :row_number
RETURNING version, intent_id, payload, gateway_type, gateway_url, policy, max_acceptance_seconds,
          max_attempts, terminal_outcomes, created_at, next_attempt_at, reserved_attempt, held_key,
          reserved_at
