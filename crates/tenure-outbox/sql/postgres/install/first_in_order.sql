-- Whether a row may be worked as far as order goes: nothing of its participant, or of its participant on its
-- rail, comes before it, where that is asked for.
-- What comes before was committed before (participant_outbox_sequences), and never comes back once it is gone.
-- Only for the functions beside it.
CREATE OR REPLACE FUNCTION public.is_first_in_order(p_participant_id text, p_rail_type text, p_sequence_id bigint)
RETURNS boolean
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    IF EXISTS (SELECT FROM public.outbox_ordered_participants AS o WHERE o.participant_id = p_participant_id) THEN
        RETURN NOT EXISTS (
            SELECT FROM public.payment_outbox_pending AS p
            WHERE p.participant_id = p_participant_id AND p.sequence_id < p_sequence_id
        );
    END IF;
    IF EXISTS (SELECT FROM public.outbox_ordered_rails AS o WHERE o.rail_type = p_rail_type) THEN
        RETURN NOT EXISTS (
            SELECT FROM public.payment_outbox_pending AS p
            WHERE p.participant_id = p_participant_id AND p.sequence_id < p_sequence_id
                AND p.rail_type = p_rail_type
        );
    END IF;
    RETURN true;
END
$$;
