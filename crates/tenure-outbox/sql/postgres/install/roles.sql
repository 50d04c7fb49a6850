-- The roles of the outbox. Nobody logs in as one of them: grant them to the roles that do.
-- Roles belong to the whole server, so an installation in another database may make them at the same moment.
DO $$
DECLARE
    v_role text;
BEGIN
    FOREACH v_role IN ARRAY ARRAY[
        'symphony_control', 'symphony_ingest', 'symphony_executor', 'symphony_readonly', 'symphony_auditor'
    ] LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = v_role) THEN
            BEGIN
                EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN', v_role);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;
            END;
        END IF;
    END LOOP;
END
$$;

-- Whoever installs without being a superuser makes functions for symphony_control, and must be one of it.
DO $$
BEGIN
    IF NOT pg_catalog.pg_has_role(current_user, 'symphony_control', 'USAGE') THEN
        GRANT symphony_control TO CURRENT_USER;
    END IF;
END
$$;
