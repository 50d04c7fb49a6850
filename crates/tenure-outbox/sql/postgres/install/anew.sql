-- Functions are made anew, because one with other parameters or another answer cannot be replaced. Those that a
-- default, a trigger or a view uses keep their shape, and stay.
-- {functions}: the names of all functions that are installed, as text[].
DO $$
DECLARE
    v_function pg_catalog.regprocedure;
BEGIN
    FOR v_function IN
        SELECT p.oid::pg_catalog.regprocedure
        FROM pg_catalog.pg_proc AS p
        WHERE p.pronamespace = 'public'::pg_catalog.regnamespace AND p.proname = ANY ({functions})
            AND NOT EXISTS (
                SELECT FROM pg_catalog.pg_depend AS d
                WHERE d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.refobjid = p.oid
            )
    LOOP
        EXECUTE pg_catalog.format('DROP FUNCTION %s', v_function);
    END LOOP;
END
$$;
