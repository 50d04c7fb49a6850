-- Gives rows back; see release_outbox_leases. $1 worker text, $2 outbox_ids uuid[], $3 lease_tokens uuid[]
SELECT result FROM public.release_outbox_leases($1, $2, $3)
