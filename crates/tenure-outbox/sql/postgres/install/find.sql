-- The instruction that was enqueued under this key, or no row. Pending first, then the attempts: what is
-- finished in between is found by the second look, because its attempt is committed with its removal.
-- Only for the functions beside it.
CREATE OR REPLACE FUNCTION public.find_payment_outbox(p_instruction_id text, p_idempotency_key text)
RETURNS TABLE (outbox_id uuid, sequence_id bigint, created_at timestamptz, state text)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT p.outbox_id, p.sequence_id, p.created_at, 'PENDING'
        FROM public.payment_outbox_pending AS p
        WHERE p.instruction_id = p_instruction_id AND p.idempotency_key = p_idempotency_key;
    IF FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY
        SELECT a.outbox_id, a.sequence_id, coalesce(a.enqueued_at, a.created_at), (
            SELECT l.state::pg_catalog.text FROM public.payment_outbox_attempts AS l
            WHERE l.outbox_id = a.outbox_id
            ORDER BY l.attempt_no DESC LIMIT 1
        )
        FROM public.payment_outbox_attempts AS a
        WHERE a.instruction_id = p_instruction_id AND a.idempotency_key = p_idempotency_key
            AND a.attempt_no = 1
        LIMIT 1;
END
$$;
