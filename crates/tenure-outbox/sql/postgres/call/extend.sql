-- Makes leases last longer; see extend_outbox_leases.
-- $1 worker text, $2 outbox_ids uuid[], $3 lease_tokens uuid[], $4 lease seconds int
SELECT outbox_id, result FROM public.extend_outbox_leases($1, $2, $3, $4)
