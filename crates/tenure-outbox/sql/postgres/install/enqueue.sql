-- Enqueues one instruction. A repeat under the same instruction and key changes nothing and returns the first
-- row, with 'PENDING' or the state of its latest attempt; one with another participant, rail or payload is warned of
-- (P7004).
-- SQLSTATE 22023: something is missing or blank; 23514: the payload is not an object.
CREATE OR REPLACE FUNCTION public.enqueue_payment_outbox(
    p_instruction_id text, p_participant_id text, p_idempotency_key text, p_rail_type text, p_payload jsonb
) RETURNS TABLE (outbox_id uuid, sequence_id bigint, created_at timestamptz, state text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public
AS $$
#variable_conflict use_column
DECLARE
    v_id pg_catalog.uuid;
    v_sequence bigint;
    v_now timestamp with time zone;
    v_first record;
BEGIN
    IF p_payload IS NULL
        OR coalesce(p_instruction_id, '') = '' OR coalesce(p_participant_id, '') = ''
        OR coalesce(p_idempotency_key, '') = '' OR coalesce(p_rail_type, '') = ''
    THEN
        RAISE EXCEPTION 'instruction_id, participant_id, idempotency_key, rail_type and payload are required'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    -- A repeat waits for nobody.
    SELECT f.* INTO v_first FROM public.find_payment_outbox(p_instruction_id, p_idempotency_key) AS f;
    IF FOUND THEN
        PERFORM public.warn_of_other_outbox_content(p_instruction_id, p_idempotency_key,
            public.outbox_repeat_differs(v_first.outbox_id, p_participant_id, p_rail_type, p_payload));
        RETURN QUERY SELECT v_first.outbox_id, v_first.sequence_id, v_first.created_at, v_first.state;
        RETURN;
    END IF;

    -- From here to the commit nobody else enqueues for this participant. Whoever did so meanwhile is seen now,
    -- before a number is taken.
    INSERT INTO public.participant_outbox_sequences (participant_id, next_sequence_id)
    VALUES (p_participant_id, 1)
    ON CONFLICT (participant_id) DO NOTHING;
    PERFORM FROM public.participant_outbox_sequences AS s WHERE s.participant_id = p_participant_id FOR UPDATE;
    SELECT f.* INTO v_first FROM public.find_payment_outbox(p_instruction_id, p_idempotency_key) AS f;
    IF FOUND THEN
        PERFORM public.warn_of_other_outbox_content(p_instruction_id, p_idempotency_key,
            public.outbox_repeat_differs(v_first.outbox_id, p_participant_id, p_rail_type, p_payload));
        RETURN QUERY SELECT v_first.outbox_id, v_first.sequence_id, v_first.created_at, v_first.state;
        RETURN;
    END IF;

    v_sequence := public.bump_participant_outbox_seq(p_participant_id);
    v_now := clock_timestamp();
    INSERT INTO public.payment_outbox_pending AS p (
        outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload,
        next_attempt_at, created_at
    )
    VALUES (
        uuidv7(), p_instruction_id, p_participant_id, v_sequence, p_idempotency_key, p_rail_type, p_payload,
        v_now, v_now
    )
    ON CONFLICT (instruction_id, idempotency_key) DO NOTHING
    RETURNING p.outbox_id INTO v_id;

    -- The same key for another participant, enqueued and perhaps even finished meanwhile: from the moment of our
    -- insert nobody can come in between any more.
    IF v_id IS NULL OR EXISTS (
        SELECT FROM public.payment_outbox_attempts AS a
        WHERE a.instruction_id = p_instruction_id AND a.idempotency_key = p_idempotency_key
            AND a.attempt_no = 1
    ) THEN
        DELETE FROM public.payment_outbox_pending AS p WHERE p.outbox_id = v_id;
        SELECT f.* INTO v_first FROM public.find_payment_outbox(p_instruction_id, p_idempotency_key) AS f;
        PERFORM public.warn_of_other_outbox_content(p_instruction_id, p_idempotency_key,
            public.outbox_repeat_differs(v_first.outbox_id, p_participant_id, p_rail_type, p_payload));
        RETURN QUERY SELECT v_first.outbox_id, v_first.sequence_id, v_first.created_at, v_first.state;
        RETURN;
    END IF;

    PERFORM public.announce_outbox_work();
    RETURN QUERY SELECT v_id, v_sequence, v_now, 'PENDING'::pg_catalog.text;
END
$$;
COMMENT ON FUNCTION public.enqueue_payment_outbox(text, text, text, text, jsonb) IS
    'Idempotent by (instruction_id, idempotency_key), for good: finished instructions are found among the attempts.';
