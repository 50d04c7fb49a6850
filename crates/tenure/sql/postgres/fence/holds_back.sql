-- Whom the raise of a scope waits for, and ends the sessions among them that the role may end. One row for each;
-- none when it waits for nobody. A prepared transaction has no session: it has a gid.
-- $1 text: scope.
WITH raising AS MATERIALIZED (
    SELECT pid
    FROM pg_locks
    WHERE locktype = 'advisory'
      AND granted
      AND objsubid = 2
      AND classid::bigint = hashtext('tenure_raise')::bigint & 4294967295
      AND objid::bigint = hashtext($1)::bigint & 4294967295
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
), waited_for AS MATERIALIZED (
    SELECT DISTINCT waits.transactionid AS xid, blocker
    FROM raising
    JOIN pg_locks AS waits ON waits.pid = raising.pid AND NOT waits.granted
    CROSS JOIN LATERAL unnest(pg_blocking_pids(raising.pid)) AS blocker
), named AS MATERIALIZED (
    SELECT waited_for.blocker AS pid,
           coalesce(session.usename, prepared.owner)::text AS role,
           prepared.gid,
           coalesce(session.application_name, '') AS application,
           coalesce(extract(epoch FROM clock_timestamp() - coalesce(session.xact_start, prepared.prepared)) * 1000, 0)
               ::float8 AS open_ms,
           CASE
               WHEN prepared.gid IS NOT NULL THEN prepared.owner = current_user OR is_superuser
               ELSE is_superuser
                   OR NOT owner.rolsuper
                      AND (pg_has_role(owner.oid, 'USAGE') OR pg_has_role('pg_signal_backend', 'USAGE'))
           END AS may_end
    FROM waited_for
    CROSS JOIN (SELECT rolsuper AS is_superuser FROM pg_roles WHERE rolname = current_user) AS here
    LEFT JOIN pg_stat_activity AS session ON session.pid = waited_for.blocker
    LEFT JOIN pg_roles AS owner ON owner.oid = session.usesysid
    LEFT JOIN pg_prepared_xacts AS prepared
        ON waited_for.blocker = 0 AND prepared.transaction = waited_for.xid
)
SELECT pid,
       role,
       gid,
       application,
       open_ms,
       coalesce(may_end, false) AS may_end,
       CASE WHEN gid IS NULL AND may_end THEN pg_terminate_backend(pid) ELSE false END AS ended
FROM named
