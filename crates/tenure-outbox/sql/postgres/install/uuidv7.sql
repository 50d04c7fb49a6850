-- A UUID that sorts by the time it was made, so that new rows go to the end of an index.
-- From 18 on the server has its own, which is found first.
-- Without a definer and settings of its own, so that the planner puts it in place of the call.
CREATE OR REPLACE FUNCTION public.uuidv7() RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
    SELECT encode(
        set_bit(
            set_bit(
                overlay(
                    uuid_send(gen_random_uuid())
                    PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
                    FROM 1 FOR 6
                ),
                52, 1
            ),
            53, 1
        ),
        'hex'
    )::pg_catalog.uuid
$$;
