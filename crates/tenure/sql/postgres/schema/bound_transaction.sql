-- Tightens the caller's timeouts for the rest of this transaction: a fenced transaction that is left
-- open would hold a takeover back for ever. A timeout that is already tighter stays.
CREATE OR REPLACE FUNCTION tenure_bound_transaction(within_ms bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    most interval := within_ms * interval '1 ms';
    statement interval := current_setting('statement_timeout')::interval;
    idle interval := current_setting('idle_in_transaction_session_timeout')::interval;
BEGIN
    IF statement = interval '0' OR statement > most THEN
        PERFORM set_config('statement_timeout', within_ms::text, true);
    END IF;
    IF idle = interval '0' OR idle > most THEN
        PERFORM set_config('idle_in_transaction_session_timeout', within_ms::text, true);
    END IF;
END
$$;
