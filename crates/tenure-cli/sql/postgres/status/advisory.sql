-- The scopes of advisory locks: who wrote the last heartbeat, how long ago by this server's clock, and
-- whether a session has the lock; null on a standby, which does not know. A row of an older client has no
-- name and goes by its key. For any role with the rights of grant.sql.
-- $1 text: a scope, or null for all.
SELECT named.scope,
       state.scope_key::text AS lock_place,
       state.holder_identity AS holder,
       state.epoch,
       CASE WHEN NOT pg_is_in_recovery() THEN EXISTS (
           SELECT FROM pg_locks
           WHERE locktype = 'advisory'
             AND granted
             AND objsubid = 1
             AND (classid::bigint << 32) | objid::bigint = state.scope_key
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
       END AS held,
       state.released_epoch = state.epoch AS given_back,
       CASE WHEN state.holder_identity <> ''
           THEN greatest(extract(epoch FROM clock.now - state.last_heartbeat) * 1000, 0)::bigint
       END AS heartbeat_age_ms
FROM public.msp_leader_state AS state
CROSS JOIN LATERAL (SELECT coalesce(state.scope, state.scope_key::text) AS scope) AS named
CROSS JOIN (SELECT clock_timestamp() AS now) AS clock
WHERE state.id = 1 AND ($1 IS NULL OR named.scope = $1)
