-- In what an instruction differs from the one that was enqueued first under its key: the names of the fields, or null
-- where it is the same. Only for the functions beside it.
CREATE OR REPLACE FUNCTION public.outbox_repeat_differs(
    p_outbox_id uuid, p_participant_id text, p_rail_type text, p_payload jsonb
) RETURNS text
LANGUAGE sql STABLE
AS $$
    SELECT nullif(concat_ws(', ',
        CASE WHEN first.participant_id <> p_participant_id THEN 'participant_id' END,
        CASE WHEN first.rail_type <> p_rail_type THEN 'rail_type' END,
        CASE WHEN first.payload <> p_payload THEN 'payload' END
    ), '')
    FROM (
        SELECT p.participant_id, p.rail_type, p.payload
        FROM public.payment_outbox_pending AS p
        WHERE p.outbox_id = p_outbox_id
        UNION ALL
        SELECT a.participant_id, a.rail_type, a.payload
        FROM public.payment_outbox_attempts AS a
        WHERE a.outbox_id = p_outbox_id AND a.attempt_no = 1
        LIMIT 1
    ) AS first
$$;
-- Warns of an instruction that comes again with something else in it; its key stays with what came first.
-- SQLSTATE P7004. Only for the functions beside it.
CREATE OR REPLACE FUNCTION public.warn_of_other_outbox_content(
    p_instruction_id text, p_idempotency_key text, p_differs text
) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF p_differs IS NOT NULL THEN
        RAISE WARNING 'instruction % was enqueued before with another %', p_instruction_id, p_differs
            USING ERRCODE = 'P7004',
                DETAIL = format('Under the idempotency key %s the first one counts, and this one was not enqueued.', p_idempotency_key),
                HINT = 'Another payment needs another key.';
    END IF;
END
$$;
