-- The state of a scope as anybody sees it. One row, or none when nobody has ever contended.
-- $1 bigint: scope_key.
SELECT state.holder_identity,
       state.epoch,
       (extract(epoch FROM clock_timestamp() - state.last_heartbeat) * 1000)::float8 AS age_ms,
       (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now_ms,
       public.tenure_server_identity() AS server,
       pg_is_in_recovery() AS standby,
       EXISTS (
           SELECT FROM pg_locks
           WHERE locktype = 'advisory'
             AND granted
             AND objsubid = 1
             AND (classid::bigint << 32) | objid::bigint = $1
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS held
FROM public.msp_leader_state AS state
WHERE state.id = 1 AND state.scope_key = $1
