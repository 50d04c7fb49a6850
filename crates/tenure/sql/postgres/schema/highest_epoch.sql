-- The highest epoch that the fence of a scope knows: the floor of the next win.
CREATE OR REPLACE FUNCTION tenure_highest_epoch(scope text) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$
    SELECT coalesce(max(fence.epoch), 0) FROM tenure_fences AS fence WHERE fence.scope = $1
$$;
