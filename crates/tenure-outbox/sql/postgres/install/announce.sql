-- Wakes the workers when the transaction commits; at most once per transaction, because equal notifications of
-- one transaction are one.
CREATE OR REPLACE FUNCTION public.announce_outbox_work() RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM pg_notify('symphony_outbox', ''), pg_notify('outbox_pending', 'new_work');
END
$$;
