-- Leases due rows; see claim_outbox_batch. $1 batch size int, $2 worker text, $3 lease seconds int
SELECT outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, attempt_count,
    lease_token
FROM public.claim_outbox_batch($1, $2, $3)
