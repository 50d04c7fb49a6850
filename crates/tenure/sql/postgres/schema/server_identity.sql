-- Which server this is, and which history of it: the system identifier and the timeline of the WAL file
-- being written. (pg_control_checkpoint() still names the old timeline after a promotion.)
CREATE OR REPLACE FUNCTION tenure_server_identity() RETURNS text
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$
    SELECT system_identifier || ':' || CASE
        WHEN pg_is_in_recovery() THEN 'standby'
        ELSE left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
    END
    FROM pg_control_system()
$$;
