-- Asks whoever leads a scope to hand over. One row: the term that was asked; none when nobody leads.
CREATE OR REPLACE FUNCTION tenure_drain(scope text) RETURNS TABLE (epoch bigint, holder text)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$
    WITH leader AS MATERIALIZED (
        SELECT t.scope, t.epoch, t.holder
        FROM tenure_terms AS t
        WHERE t.scope = $1 AND t.ended_at IS NULL
        ORDER BY t.epoch DESC
        LIMIT 1
    ), asked AS (
        INSERT INTO tenure_drains AS d (scope, epoch)
        SELECT l.scope, l.epoch FROM leader AS l
        ON CONFLICT ON CONSTRAINT tenure_drains_pkey DO UPDATE
        SET epoch = greatest(d.epoch, excluded.epoch), asked_at = clock_timestamp()
    )
    SELECT l.epoch, l.holder FROM leader AS l
$$;
