-- Takes back expired leases; see repair_expired_leases. $1 batch size int, $2 worker text
SELECT outbox_id, attempt_no FROM public.repair_expired_leases($1, $2)
