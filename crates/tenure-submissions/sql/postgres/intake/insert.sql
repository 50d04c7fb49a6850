-- Stores a batch of intents; those whose id is taken are left out. One row for each that was stored.
-- $1 text[]: ids, sorted bytewise, so that two batches never wait for each other in a circle;
-- $2 text[]: targets, $3 bytea[]: payloads, $4 bytea[]: their hashes, $5 integer[]: which of the contracts.
-- The contracts: $6 text[]: gateway types, $7 text[]: gateway URLs, $8 text[]: policies,
-- $9 bigint[]: max_acceptance_seconds, $10 integer[]: max_attempts, $11 text[]: terminal outcomes,
-- $12 text[]: webhook URLs, $13 text[], $14 text[]: headers, $15 text[]: variables with secrets.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
)
INSERT INTO public.submission_intents (
    intent_id, submission_target, payload, payload_hash, gateway_type, gateway_url, policy,
    max_acceptance_seconds, max_attempts, terminal_outcomes, webhook_url, webhook_headers,
    webhook_headers_env, webhook_secret_env, created_at, updated_at, last_modified_at, next_attempt_at
)
SELECT s.intent_id, s.submission_target, s.payload, s.payload_hash,
       ($6::text[])[s.contract], ($7::text[])[s.contract], ($8::text[])[s.contract],
       ($9::bigint[])[s.contract], ($10::integer[])[s.contract], ($11::text[])[s.contract],
       ($12::text[])[s.contract], ($13::text[])[s.contract], ($14::text[])[s.contract],
       ($15::text[])[s.contract], clock.now, clock.now, clock.now, clock.now
FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bytea[], $5::integer[])
     WITH ORDINALITY AS s(intent_id, submission_target, payload, payload_hash, contract, place)
CROSS JOIN clock
ORDER BY s.place
ON CONFLICT (intent_id) DO NOTHING
RETURNING intent_id, row_number, created_at
