-- Begins a term, on the session that has just got the lock: what the local deadline counts from.
-- One row: the epoch, and how long the gates of earlier terms may still be open: as this server knows it, and as
-- another one may have granted them, or another history of this one. No wait is longer than a late threshold and
-- a margin, however the clock was set.
-- $1 bigint: scope_key, $2 text: holder_identity, $3 bigint: highest epoch that the candidate has seen,
-- $4 bigint: its late threshold in milliseconds, $5 text: scope, $6 float8: its margin in milliseconds,
-- $7 bigint: the term whose processes were seen to be gone, 0 for none, $8 text: the candidate's processes.
WITH held AS MATERIALIZED (
    SELECT scope_key, epoch, holder_identity, last_heartbeat, released_epoch, quiet_at, server, unknown_until,
           greatest(late_threshold_ms, $4::bigint) + greatest(margin_ms, $6::float8) AS longest_ms,
           late_threshold_ms + greatest(margin_ms, $6::float8) AS late_ms
    FROM public.msp_leader_state
    WHERE id = 1 AND scope_key = $1
    FOR UPDATE
), now AS MATERIALIZED (
    SELECT held.*, clock_timestamp() AS now, public.tenure_server_identity() AS server_now
    FROM held
), seen AS MATERIALIZED (
    SELECT scope_key,
           now,
           server_now,
           least(now + longest_ms * interval '1 ms', greatest(quiet_at, CASE
               WHEN holder_identity = '' OR epoch IN (released_epoch, $7::bigint) THEN '-infinity'
               ELSE last_heartbeat + late_ms * interval '1 ms'
           END)) AS quiet_at,
           least(now + longest_ms * interval '1 ms', CASE
               WHEN server NOT IN ('', server_now) OR epoch = 0 AND server_now NOT LIKE '%:00000001' THEN 'infinity'
               ELSE unknown_until
           END) AS unknown_until
    FROM now
)
UPDATE public.msp_leader_state AS state
SET epoch = greatest(state.epoch, public.tenure_highest_epoch($5), $3) + 1,
    holder_identity = $2,
    last_heartbeat = seen.now,
    late_threshold_ms = $4,
    margin_ms = $6,
    quiet_at = seen.quiet_at,
    server = seen.server_now,
    unknown_until = seen.unknown_until,
    processes = $8,
    processes_epoch = greatest(state.epoch, public.tenure_highest_epoch($5), $3) + 1
FROM seen
WHERE state.id = 1 AND state.scope_key = seen.scope_key
RETURNING state.epoch,
          (extract(epoch FROM greatest(seen.quiet_at, seen.now) - seen.now) * 1000)::float8 AS settle_ms,
          (extract(epoch FROM greatest(seen.unknown_until, seen.now) - seen.now) * 1000)::float8 AS unknown_ms,
          (extract(epoch FROM seen.now) * 1000)::float8 AS now_ms,
          seen.server_now AS server
