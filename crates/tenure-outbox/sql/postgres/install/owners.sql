-- The functions run as symphony_control, which alone writes; the tables and their trigger belong to whoever
-- installs, so that not even symphony_control can remove what keeps attempts append-only.
-- {functions}: the names of all functions that are installed, as text[].
GRANT CREATE ON SCHEMA public TO symphony_control;
DO $$
DECLARE
    v_function pg_catalog.regprocedure;
    v_is_guard boolean;
BEGIN
    FOR v_function, v_is_guard IN
        SELECT p.oid::pg_catalog.regprocedure, p.prorettype = 'pg_catalog.trigger'::pg_catalog.regtype
        FROM pg_catalog.pg_proc AS p
        WHERE p.pronamespace = 'public'::pg_catalog.regnamespace AND p.proname = ANY ({functions})
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', v_function);
        IF NOT v_is_guard THEN
            EXECUTE pg_catalog.format('ALTER FUNCTION %s OWNER TO symphony_control', v_function);
        END IF;
    END LOOP;
END
$$;
REVOKE CREATE ON SCHEMA public FROM symphony_control;
