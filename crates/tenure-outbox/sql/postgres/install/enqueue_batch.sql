-- Enqueues many instructions in one go. The answer has a row per instruction, in their order: result 'done',
-- 'repeat' (the row as it was first enqueued, also by an earlier row of the same call; its state is 'PENDING' or
-- that of its latest attempt), or 'invalid' (something is missing or blank, or the payload is no object; nothing
-- was written for it). A repeat with another participant, rail or payload says in what it differs, and is warned of
-- (P7004).
-- SQLSTATE 22023: the lists are not equally long.
--
-- In a REPEATABLE READ or SERIALIZABLE transaction it cannot see a key that was enqueued for *another* participant
-- and worked off since the transaction began; under one participant a key is safe there too.
--
-- Settings: every table is reached through the index meant for it, whatever the statistics say.
CREATE OR REPLACE FUNCTION public.enqueue_payment_outbox_batch(
    p_instruction_ids text[], p_participant_ids text[], p_idempotency_keys text[], p_rail_types text[],
    p_payloads jsonb[]
) RETURNS TABLE (
    ordinal bigint, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text, result text, differs text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_mergejoin = off
SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamp with time zone;
    v_participants pg_catalog.text[];
    v_ordinals bigint[];
    v_ids pg_catalog.uuid[];
    v_sequences bigint[];
    v_enqueued_for pg_catalog.text[];
    v_foreign pg_catalog.uuid[];
BEGIN
    IF cardinality(p_participant_ids) IS DISTINCT FROM cardinality(p_instruction_ids)
        OR cardinality(p_idempotency_keys) IS DISTINCT FROM cardinality(p_instruction_ids)
        OR cardinality(p_rail_types) IS DISTINCT FROM cardinality(p_instruction_ids)
        OR cardinality(p_payloads) IS DISTINCT FROM cardinality(p_instruction_ids)
    THEN
        RAISE EXCEPTION 'the lists of a batch must be equally long' USING ERRCODE = 'invalid_parameter_value';
    END IF;

    -- From here to the commit nobody else enqueues for these participants. In one order, so that two batches do
    -- not wait for each other.
    SELECT array_agg(DISTINCT u.participant_id COLLATE "C") INTO v_participants
    FROM unnest(p_instruction_ids, p_participant_ids, p_idempotency_keys, p_rail_types, p_payloads)
        AS u(instruction_id, participant_id, idempotency_key, rail_type, payload)
    WHERE u.instruction_id <> '' AND u.participant_id <> '' AND u.idempotency_key <> ''
        AND u.rail_type <> '' AND jsonb_typeof(u.payload) = 'object';
    INSERT INTO public.participant_outbox_sequences (participant_id, next_sequence_id)
    SELECT u.participant_id, 1 FROM unnest(v_participants) AS u(participant_id)
    ON CONFLICT (participant_id) DO NOTHING;
    PERFORM FROM unnest(v_participants) WITH ORDINALITY AS u(participant_id, place)
    JOIN public.participant_outbox_sequences AS s ON s.participant_id = u.participant_id
    ORDER BY u.place
    FOR UPDATE OF s;

    v_now := clock_timestamp();
    WITH fresh AS MATERIALIZED (
        SELECT uuidv7() AS outbox_id, u.*,
            (
                SELECT s.next_sequence_id FROM public.participant_outbox_sequences AS s
                WHERE s.participant_id = u.participant_id
            ) - 1 + row_number() OVER (PARTITION BY u.participant_id ORDER BY u.ordinal) AS sequence_id
        FROM (
            SELECT DISTINCT ON (u.instruction_id COLLATE "C", u.idempotency_key COLLATE "C") u.*
            FROM unnest(
                p_instruction_ids, p_participant_ids, p_idempotency_keys, p_rail_types, p_payloads
            ) WITH ORDINALITY
                AS u(instruction_id, participant_id, idempotency_key, rail_type, payload, ordinal)
            WHERE u.instruction_id <> '' AND u.participant_id <> '' AND u.idempotency_key <> ''
                AND u.rail_type <> '' AND jsonb_typeof(u.payload) = 'object'
            ORDER BY u.instruction_id COLLATE "C", u.idempotency_key COLLATE "C", u.ordinal
        ) AS u
        WHERE (
            SELECT true FROM public.payment_outbox_pending AS p
            WHERE p.instruction_id = u.instruction_id AND p.idempotency_key = u.idempotency_key
        ) IS NULL AND (
            SELECT true FROM public.payment_outbox_attempts AS a
            WHERE a.instruction_id = u.instruction_id AND a.idempotency_key = u.idempotency_key
                AND a.attempt_no = 1
            LIMIT 1
        ) IS NULL
    ), inserted AS (
        INSERT INTO public.payment_outbox_pending (
            outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload,
            next_attempt_at, created_at
        )
        SELECT f.outbox_id, f.instruction_id, f.participant_id, f.sequence_id, f.idempotency_key, f.rail_type,
            f.payload, v_now, v_now
        FROM fresh AS f
        -- In one order, for two batches that share keys.
        ORDER BY f.instruction_id COLLATE "C", f.idempotency_key COLLATE "C"
        ON CONFLICT (instruction_id, idempotency_key) DO NOTHING
    )
    SELECT array_agg(f.ordinal), array_agg(f.outbox_id), array_agg(f.sequence_id), array_agg(f.participant_id)
    INTO v_ordinals, v_ids, v_sequences, v_enqueued_for
    FROM fresh AS f;

    IF v_ids IS NOT NULL THEN
        UPDATE public.participant_outbox_sequences AS s
        SET next_sequence_id = s.next_sequence_id + u.count
        FROM (
            SELECT u.participant_id, count(*) AS count FROM unnest(v_enqueued_for) AS u(participant_id)
            GROUP BY u.participant_id
        ) AS u
        WHERE s.participant_id = u.participant_id;

        -- The same key for another participant, enqueued and perhaps even finished meanwhile: from the moment of
        -- our insert nobody can come in between any more.
        SELECT array_agg(u.outbox_id) INTO v_foreign
        FROM unnest(v_ids) AS u(outbox_id)
        WHERE (
            SELECT (
                SELECT true FROM public.payment_outbox_attempts AS a
                WHERE a.instruction_id = p.instruction_id AND a.idempotency_key = p.idempotency_key
                    AND a.attempt_no = 1
                LIMIT 1
            ) IS NULL
            FROM public.payment_outbox_pending AS p
            WHERE p.outbox_id = u.outbox_id
        ) IS NOT TRUE;
        DELETE FROM public.payment_outbox_pending AS p WHERE p.outbox_id = ANY (v_foreign);
        IF coalesce(cardinality(v_foreign), 0) < cardinality(v_ids) THEN
            PERFORM public.announce_outbox_work();
        END IF;
    END IF;

    IF v_foreign IS NULL AND cardinality(v_ids) = cardinality(p_instruction_ids) THEN
        RETURN QUERY
            SELECT u.ordinal, u.outbox_id, u.sequence_id, v_now, 'PENDING', 'done', NULL::pg_catalog.text
            FROM unnest(v_ordinals, v_ids, v_sequences) AS u(ordinal, outbox_id, sequence_id)
            ORDER BY u.ordinal;
        RETURN;
    END IF;

    RETURN QUERY
        SELECT u.ordinal, coalesce(n.outbox_id, f.outbox_id), coalesce(n.sequence_id, f.sequence_id),
            CASE WHEN n.ordinal IS NULL THEN f.created_at ELSE v_now END,
            CASE WHEN n.ordinal IS NULL THEN f.state ELSE 'PENDING' END,
            CASE WHEN n.ordinal IS NOT NULL THEN 'done' WHEN f.outbox_id IS NOT NULL THEN 'repeat' ELSE 'invalid' END,
            d.differs
        FROM unnest(
            p_instruction_ids, p_participant_ids, p_idempotency_keys, p_rail_types, p_payloads
        ) WITH ORDINALITY AS u(instruction_id, participant_id, idempotency_key, rail_type, payload, ordinal)
        LEFT JOIN (
            SELECT n.* FROM unnest(v_ordinals, v_ids, v_sequences) AS n(ordinal, outbox_id, sequence_id)
            WHERE v_foreign IS NULL OR n.outbox_id <> ALL (v_foreign)
        ) AS n ON n.ordinal = u.ordinal
        LEFT JOIN LATERAL public.find_payment_outbox(u.instruction_id, u.idempotency_key) AS f
            ON n.ordinal IS NULL AND u.participant_id <> '' AND u.rail_type <> ''
                AND jsonb_typeof(u.payload) = 'object'
        LEFT JOIN LATERAL (
            SELECT public.outbox_repeat_differs(f.outbox_id, u.participant_id, u.rail_type, u.payload) AS differs
        ) AS d ON f.outbox_id IS NOT NULL
        LEFT JOIN LATERAL (
            SELECT public.warn_of_other_outbox_content(u.instruction_id, u.idempotency_key, d.differs)
        ) AS w ON d.differs IS NOT NULL
        ORDER BY u.ordinal;
END
$$;
COMMENT ON FUNCTION public.enqueue_payment_outbox_batch(text[], text[], text[], text[], jsonb[]) IS
    'Idempotent by (instruction_id, idempotency_key), for good: finished instructions are found among the attempts.';
