-- Locks what a claim may take: rows whose lease has expired, and due rows that are not leased, together up to
-- p_batch_size; skips what others have locked. Looks from the given marks on, and says from where on the next look
-- will find what this one has left.
-- Only for the functions beside it.
CREATE OR REPLACE FUNCTION public.look_for_claimable_outbox(
    p_batch_size integer, p_now timestamptz, p_due_from timestamptz, p_leased_from timestamptz,
    OUT expired uuid[], OUT due uuid[], OUT due_from timestamptz, OUT leased_from timestamptz
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
    SELECT array_agg(d.outbox_id), max(d.next_attempt_at) INTO due, due_from
    FROM (
        SELECT p.outbox_id, p.next_attempt_at FROM public.payment_outbox_pending AS p
        WHERE p.lease_expires_at IS NULL
            AND p.next_attempt_at >= p_due_from AND p.next_attempt_at <= p_now
            AND (NOT v_is_ordered OR public.is_first_in_order(p.participant_id, p.rail_type, p.sequence_id))
        ORDER BY p.next_attempt_at, p.lease_expires_at, p.created_at
        LIMIT p_batch_size - coalesce(cardinality(expired), 0)
        FOR UPDATE SKIP LOCKED
    ) AS d;

    -- Behind the last row, or behind everything; but not into the last second, where transactions that are about
    -- to commit have their rows. Where order is asked for, rows that had to wait are everywhere.
    due_from := CASE
        WHEN v_is_ordered THEN '-infinity'
        WHEN cardinality(expired) = p_batch_size THEN p_due_from
        WHEN coalesce(cardinality(expired || due), 0) < p_batch_size THEN p_now - interval '1 second'
        ELSE least(due_from, p_now - interval '1 second')
    END;
    leased_from := CASE
        WHEN v_is_ordered OR cardinality(expired) = p_batch_size THEN p_leased_from
        ELSE p_now - interval '1 second'
    END;
END
$$;
