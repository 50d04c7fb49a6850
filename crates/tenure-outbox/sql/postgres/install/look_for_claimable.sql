-- Locks what a claim may take: rows whose lease has expired, and due rows that are not leased, together up to
-- p_batch_size; skips what others have locked. Looks from the given marks on.
-- Only for the functions beside it.
CREATE OR REPLACE FUNCTION public.look_for_claimable_outbox(
    p_batch_size integer, p_now timestamptz, p_due_from timestamptz, p_leased_from timestamptz,
    OUT expired uuid[], OUT due uuid[]
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_is_ordered boolean := EXISTS (SELECT FROM public.outbox_ordered_participants)
        OR EXISTS (SELECT FROM public.outbox_ordered_rails);
BEGIN
    SELECT array_agg(e.outbox_id) INTO expired
    FROM (
        SELECT p.outbox_id FROM public.payment_outbox_pending AS p
        WHERE p.lease_expires_at >= p_leased_from AND p.lease_expires_at <= p_now
            AND p.next_attempt_at <= p_now
            AND (NOT v_is_ordered OR public.is_first_in_order(p.participant_id, p.rail_type, p.sequence_id))
        ORDER BY p.lease_expires_at
        LIMIT p_batch_size
        FOR UPDATE SKIP LOCKED
    ) AS e;
    SELECT array_agg(d.outbox_id) INTO due
    FROM (
        SELECT p.outbox_id FROM public.payment_outbox_pending AS p
        WHERE p.lease_expires_at IS NULL
            AND p.next_attempt_at >= p_due_from AND p.next_attempt_at <= p_now
            AND (NOT v_is_ordered OR public.is_first_in_order(p.participant_id, p.rail_type, p.sequence_id))
        ORDER BY p.next_attempt_at, p.lease_expires_at, p.created_at
        LIMIT p_batch_size - coalesce(cardinality(expired), 0)
        FOR UPDATE SKIP LOCKED
    ) AS d;
END
$$;
