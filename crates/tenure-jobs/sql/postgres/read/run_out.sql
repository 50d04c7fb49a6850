-- Whether anything has run out: a lease, the patience with an agent, or the room for events.
-- $1, $2, $3 bigint: after how many ms of silence an agent is stale, a tombstone, forgotten; $4 bigint: how many
-- events are kept.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS now
)
SELECT EXISTS (
           SELECT FROM public.tenure_jobs AS j WHERE j.state = 'leased' AND j.lease_expires_at <= moment.now
       ) OR EXISTS (
           SELECT FROM public.tenure_job_agents AS a
           WHERE a.last_seen_at <= moment.now - interval '1 millisecond'
                 * CASE a.state WHEN 'alive' THEN $1::bigint WHEN 'stale' THEN $2::bigint ELSE $3::bigint END
       ) OR EXISTS (
           SELECT FROM public.tenure_job_events AS e
           WHERE e.event_number <= (SELECT c.event_number - $4::bigint FROM public.tenure_job_changes AS c)
       ) AS has_run_out
FROM moment
