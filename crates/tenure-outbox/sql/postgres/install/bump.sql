-- Takes the participant's next sequence number; the first is 1. Holds its row until the transaction commits.
CREATE OR REPLACE FUNCTION public.bump_participant_outbox_seq(p_participant_id text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public
AS $$
DECLARE
    v_taken bigint;
BEGIN
    INSERT INTO public.participant_outbox_sequences AS s (participant_id, next_sequence_id)
    VALUES (p_participant_id, 2)
    ON CONFLICT (participant_id) DO UPDATE SET next_sequence_id = s.next_sequence_id + 1
    RETURNING s.next_sequence_id - 1 INTO v_taken;
    RETURN v_taken;
END
$$;
