-- Where uuid_v7_or_random() has its UUIDs from: 'uuidv7_native' (the server, from 18 on) or 'uuidv7_sql'.
CREATE OR REPLACE FUNCTION public.uuid_strategy() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public
AS $$
    SELECT CASE WHEN to_regprocedure('pg_catalog.uuidv7()') IS NULL THEN 'uuidv7_sql' ELSE 'uuidv7_native' END
$$;
