-- Lets whoever was drained contend again. Returns whether anybody had been asked.
CREATE OR REPLACE FUNCTION tenure_end_drain(scope text) RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$
    WITH ended AS (DELETE FROM tenure_drains AS d WHERE d.scope = $1 RETURNING 1)
    SELECT EXISTS (SELECT FROM ended)
$$;
