-- How many attempts an instruction has at most: the setting symphony.outbox_retry_ceiling where it is a number
-- from 1 to 20, or the nearer of the two; else 20. Any role can SET it, hence the bounds.
CREATE OR REPLACE FUNCTION public.outbox_retry_ceiling() RETURNS integer
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public
AS $$
DECLARE
    v_setting pg_catalog.text := trim(current_setting('symphony.outbox_retry_ceiling', true));
BEGIN
    IF v_setting ~ '^[+-]?[0-9]+$' THEN
        RETURN greatest(1, least(20, v_setting::numeric))::integer;
    END IF;
    RETURN 20;
END
$$;
COMMENT ON FUNCTION public.outbox_retry_ceiling() IS
    'At most 20 attempts, whatever a session sets.';
