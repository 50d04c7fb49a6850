-- Records outcomes; see complete_outbox_attempts.
-- $1 worker text, $2 outbox_ids uuid[], $3 lease_tokens uuid[], $4 states text[], $5 rail_references text[],
-- $6 rail_codes text[], $7 error_codes text[], $8 error_messages text[], $9 latencies_ms int[],
-- $10 retry_delays_seconds int[]
SELECT result, attempt_no, state::text AS state
FROM public.complete_outbox_attempts(
    $1, $2, $3, $4::text[]::public.outbox_attempt_state[], $5, $6, $7, $8, $9, $10
)
