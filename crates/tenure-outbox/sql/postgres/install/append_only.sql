-- Refuses whatever would change or remove an attempt. ALWAYS: also in sessions that replay replication.
CREATE OR REPLACE FUNCTION public.deny_outbox_attempts_mutation() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public
AS $$
BEGIN
    RAISE EXCEPTION 'payment_outbox_attempts is append-only: % is not allowed', TG_OP
        USING ERRCODE = 'P0001';
END
$$;

CREATE OR REPLACE TRIGGER trg_deny_outbox_attempts_mutation
    BEFORE UPDATE OR DELETE ON public.payment_outbox_attempts
    FOR EACH ROW EXECUTE FUNCTION public.deny_outbox_attempts_mutation();
CREATE OR REPLACE TRIGGER trg_deny_outbox_attempts_truncate
    BEFORE TRUNCATE ON public.payment_outbox_attempts
    FOR EACH STATEMENT EXECUTE FUNCTION public.deny_outbox_attempts_mutation();
ALTER TABLE public.payment_outbox_attempts ENABLE ALWAYS TRIGGER trg_deny_outbox_attempts_mutation;
ALTER TABLE public.payment_outbox_attempts ENABLE ALWAYS TRIGGER trg_deny_outbox_attempts_truncate;

COMMENT ON TRIGGER trg_deny_outbox_attempts_mutation ON public.payment_outbox_attempts IS
    'Attempts are append-only: UPDATE and DELETE end with SQLSTATE P0001, whoever tries.';
COMMENT ON TRIGGER trg_deny_outbox_attempts_truncate ON public.payment_outbox_attempts IS
    'Attempts are append-only: TRUNCATE ends with SQLSTATE P0001, whoever tries.';
