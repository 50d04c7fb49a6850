-- The key of a new row: a UUID of version 7, which every supported Postgres can make.
CREATE OR REPLACE FUNCTION public.uuid_v7_or_random() RETURNS uuid
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, public
AS $$
    SELECT uuidv7()
$$;
