-- Proves, on the session that holds it, that the lock and the epoch are still ours. One row if so. By a clock that
-- was set back the last heartbeat stays where it is, and `extends` is false.
-- $1 bigint: scope_key, $2 text: holder_identity, $3 bigint: epoch.
WITH held AS MATERIALIZED (
    SELECT scope_key, holder_identity, epoch, last_heartbeat
    FROM public.msp_leader_state
    WHERE id = 1 AND scope_key = $1
    FOR UPDATE
), seen AS MATERIALIZED (
    SELECT scope_key, holder_identity, epoch, last_heartbeat, clock_timestamp() AS now
    FROM held
)
UPDATE public.msp_leader_state AS state
SET last_heartbeat = greatest(seen.last_heartbeat, seen.now)
FROM seen
WHERE state.id = 1
  AND state.scope_key = seen.scope_key
  AND seen.holder_identity = $2
  AND seen.epoch = $3
  AND EXISTS (
      SELECT FROM pg_locks
      WHERE locktype = 'advisory'
        AND pid = pg_backend_pid()
        AND granted
        AND objsubid = 1
        AND (classid::bigint << 32) | objid::bigint = $1
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
RETURNING seen.now >= seen.last_heartbeat AS extends,
          (extract(epoch FROM seen.now) * 1000)::float8 AS now_ms,
          public.tenure_server_identity() AS server
