-- Begins a term, on the session that has just got the lock: what the local deadline counts from.
-- One row: the epoch, and how long the gates of earlier terms may still be open.
-- $1 bigint: scope_key, $2 text: holder_identity, $3 bigint: highest epoch that the candidate has seen,
-- $4 bigint: its late threshold in milliseconds, $5 text: scope, $6 float8: its margin in milliseconds,
-- $7 bigint: the term whose processes were seen to be gone, 0 for none, $8 text: the candidate's processes.
WITH held AS MATERIALIZED (
    SELECT scope_key, epoch, holder_identity, last_heartbeat, late_threshold_ms, margin_ms, released_epoch,
           quiet_at
    FROM public.msp_leader_state
    WHERE id = 1 AND scope_key = $1
    FOR UPDATE
), seen AS MATERIALIZED (
    SELECT scope_key,
           clock_timestamp() AS now,
           greatest(quiet_at, CASE
               WHEN holder_identity = '' OR epoch IN (released_epoch, $7::bigint) THEN '-infinity'
               ELSE last_heartbeat + (late_threshold_ms + greatest(margin_ms, $6::float8)) * interval '1 ms'
           END) AS quiet_at
    FROM held
)
UPDATE public.msp_leader_state AS state
SET epoch = greatest(state.epoch, public.tenure_highest_epoch($5), $3) + 1,
    holder_identity = $2,
    last_heartbeat = seen.now,
    late_threshold_ms = $4,
    margin_ms = $6,
    quiet_at = seen.quiet_at,
    processes = $8,
    processes_epoch = greatest(state.epoch, public.tenure_highest_epoch($5), $3) + 1
FROM seen
WHERE state.id = 1 AND state.scope_key = seen.scope_key
RETURNING state.epoch,
          CASE WHEN seen.quiet_at > seen.now
               THEN (extract(epoch FROM seen.quiet_at - seen.now) * 1000)::float8
               ELSE 0
          END AS settle_ms,
          (extract(epoch FROM seen.now) * 1000)::float8 AS now_ms,
          public.tenure_server_identity() AS server
