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
    v_has_ordered_participants boolean := EXISTS (SELECT FROM public.outbox_ordered_participants);
    v_has_ordered_rails boolean := EXISTS (SELECT FROM public.outbox_ordered_rails);
    v_is_ordered boolean := v_has_ordered_participants OR v_has_ordered_rails;
    v_heads pg_catalog.uuid[];
    v_room integer;
    -- Where there are ordered participants: the room that all others have.
    v_others integer;
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
    v_room := p_batch_size - coalesce(cardinality(expired), 0);

    -- The first of each ordered participant is found by its number: however many wait behind it, nobody walks over
    -- them. Of the room, these and all others have half each, an odd place goes to who has waited longer, and what
    -- the others leave is theirs.
    IF v_has_ordered_participants THEN
        SELECT v_room - least(count(*), v_room / 2 + CASE WHEN min(h.next_attempt_at) <= (
            SELECT p.next_attempt_at FROM public.payment_outbox_pending AS p
            WHERE p.lease_expires_at IS NULL
                AND p.next_attempt_at >= p_due_from AND p.next_attempt_at <= p_now
                AND p.participant_id NOT IN (SELECT o.participant_id FROM public.outbox_ordered_participants AS o)
            ORDER BY p.next_attempt_at, p.lease_expires_at, p.created_at LIMIT 1
        ) THEN v_room % 2 ELSE 0 END) INTO v_others
        FROM public.first_of_ordered_participants(p_now) AS h;
    END IF;
    SELECT array_agg(d.outbox_id), max(d.next_attempt_at) INTO due, due_from
    FROM (
        SELECT p.outbox_id, p.next_attempt_at FROM public.payment_outbox_pending AS p
        WHERE p.lease_expires_at IS NULL
            AND p.next_attempt_at >= p_due_from AND p.next_attempt_at <= p_now
            AND (NOT v_has_ordered_participants
                OR p.participant_id NOT IN (SELECT o.participant_id FROM public.outbox_ordered_participants AS o))
            AND (NOT v_has_ordered_rails
                OR public.is_first_in_order(p.participant_id, p.rail_type, p.sequence_id))
        ORDER BY p.next_attempt_at, p.lease_expires_at, p.created_at
        LIMIT coalesce(v_others, v_room)
        FOR UPDATE SKIP LOCKED
    ) AS d;
    IF v_has_ordered_participants THEN
        SELECT array_agg(h.outbox_id) INTO v_heads
        FROM (
            SELECT p.outbox_id FROM public.first_of_ordered_participants(p_now) AS h
            JOIN public.payment_outbox_pending AS p ON p.outbox_id = h.outbox_id
            WHERE p.lease_expires_at IS NULL AND p.next_attempt_at <= p_now
            ORDER BY p.next_attempt_at
            LIMIT v_room - coalesce(cardinality(due), 0)
            FOR UPDATE OF p SKIP LOCKED
        ) AS h;
    END IF;

    -- Behind the last row, or behind everything; but not into the last second, where transactions that are about
    -- to commit have their rows; a lease ends long after its claim was committed. On ordered rails, rows that had
    -- to wait are everywhere.
    due_from := CASE
        WHEN v_has_ordered_rails THEN '-infinity'
        WHEN coalesce(v_others, v_room) = 0 THEN p_due_from
        WHEN coalesce(cardinality(due), 0) < coalesce(v_others, v_room) THEN p_now - interval '1 second'
        ELSE least(due_from, p_now - interval '1 second')
    END;
    leased_from := CASE
        WHEN v_is_ordered OR cardinality(expired) = p_batch_size THEN p_leased_from
        ELSE p_now
    END;
    due := v_heads || due;
END
$$;
