-- The lowest pending row of each ordered participant, where it is due and not leased.
-- Only for the functions beside it.
CREATE OR REPLACE FUNCTION public.first_of_ordered_participants(p_now timestamptz)
RETURNS TABLE (outbox_id uuid, next_attempt_at timestamptz)
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT h.outbox_id, h.next_attempt_at
        FROM public.outbox_ordered_participants AS o
        CROSS JOIN LATERAL (
            SELECT p.outbox_id, p.lease_expires_at, p.next_attempt_at FROM public.payment_outbox_pending AS p
            WHERE p.participant_id = o.participant_id
            ORDER BY p.sequence_id LIMIT 1
        ) AS h
        WHERE h.lease_expires_at IS NULL AND h.next_attempt_at <= p_now;
END
$$;
