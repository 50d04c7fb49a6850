-- Who may do what: everything is taken away first.
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public
    TO symphony_control, symphony_ingest, symphony_executor, symphony_readonly, symphony_auditor;

REVOKE ALL ON TABLE public.payment_outbox_pending, public.payment_outbox_attempts,
    public.participant_outbox_sequences, public.outbox_ordered_participants, public.outbox_ordered_rails,
    public.supervisor_outbox_status
    FROM PUBLIC, symphony_control, symphony_ingest, symphony_executor, symphony_readonly, symphony_auditor;
REVOKE ALL ON FUNCTION public.enqueue_payment_outbox(text, text, text, text, jsonb),
    public.enqueue_payment_outbox_batch(text[], text[], text[], text[], jsonb[]),
    public.claim_outbox_batch(integer, text, integer),
    public.complete_outbox_attempt(
        uuid, uuid, text, public.outbox_attempt_state, text, text, text, text, integer, integer
    ),
    public.complete_outbox_attempts(
        text, uuid[], uuid[], public.outbox_attempt_state[], text[], text[], text[], text[], integer[], integer[]
    ),
    public.extend_outbox_leases(text, uuid[], uuid[], integer),
    public.release_outbox_leases(text, uuid[], uuid[]),
    public.repair_expired_leases(integer, text)
    FROM symphony_ingest, symphony_executor, symphony_readonly, symphony_auditor;

-- The owner of the functions. Attempts it may only append.
GRANT ALL ON TABLE public.payment_outbox_pending, public.participant_outbox_sequences,
    public.outbox_ordered_participants, public.outbox_ordered_rails
    TO symphony_control;
GRANT SELECT, INSERT ON TABLE public.payment_outbox_attempts TO symphony_control;
GRANT SELECT ON TABLE public.supervisor_outbox_status TO symphony_control;

-- Those who enqueue.
GRANT EXECUTE ON FUNCTION public.enqueue_payment_outbox(text, text, text, text, jsonb),
    public.enqueue_payment_outbox_batch(text[], text[], text[], text[], jsonb[])
    TO symphony_ingest;

-- Those who work.
GRANT EXECUTE ON FUNCTION public.claim_outbox_batch(integer, text, integer),
    public.complete_outbox_attempt(
        uuid, uuid, text, public.outbox_attempt_state, text, text, text, text, integer, integer
    ),
    public.complete_outbox_attempts(
        text, uuid[], uuid[], public.outbox_attempt_state[], text[], text[], text[], text[], integer[], integer[]
    ),
    public.extend_outbox_leases(text, uuid[], uuid[], integer),
    public.release_outbox_leases(text, uuid[], uuid[]),
    public.repair_expired_leases(integer, text)
    TO symphony_executor;
GRANT SELECT ON TABLE public.payment_outbox_pending, public.payment_outbox_attempts TO symphony_executor;

-- Those who look.
GRANT SELECT ON TABLE public.payment_outbox_pending, public.payment_outbox_attempts,
    public.supervisor_outbox_status
    TO symphony_readonly, symphony_auditor;
