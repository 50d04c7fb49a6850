-- Notes for the trigger that this transaction has passed the fence of a scope. The note carries the
-- transaction's number, so that one left over from another transaction means nothing.
CREATE OR REPLACE FUNCTION tenure_mark_fenced(scope text) RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, public, pg_temp
AS $$
    SELECT set_config('tenure.fenced', concat_ws(
        E'\n', nullif(current_setting('tenure.fenced', true), ''),
        pg_current_xact_id()::text || ' ' || scope), true)
$$;
