-- Enqueues many instructions; see enqueue_payment_outbox_batch.
-- $1 instruction_ids text[], $2 participant_ids text[], $3 idempotency_keys text[], $4 rail_types text[],
-- $5 payloads jsonb[]
SELECT outbox_id, sequence_id, state, result, differs FROM public.enqueue_payment_outbox_batch($1, $2, $3, $4, $5)
