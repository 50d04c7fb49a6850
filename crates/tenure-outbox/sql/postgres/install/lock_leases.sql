-- Locks the rows that are leased to a worker under these tokens, in one order, so that two batches do not wait
-- for each other.
-- Only for the functions beside it.
CREATE OR REPLACE FUNCTION public.lock_outbox_leases(p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[])
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM unnest(p_outbox_ids, p_lease_tokens) AS u(outbox_id, lease_token)
    JOIN public.payment_outbox_pending AS p
        ON p.outbox_id = u.outbox_id AND p.lease_token = u.lease_token AND (p.claimed_by = p_worker_id) IS TRUE
    ORDER BY u.outbox_id
    FOR UPDATE OF p;
END
$$;
