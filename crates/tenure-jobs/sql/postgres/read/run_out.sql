-- Whether anything has run out: a lease, the patience with an agent, a pause or a deadline of a job, or the room for
-- events. $1 bigint: the leader's epoch, $2 boolean: whether leases of earlier terms are spared, $3 boolean: whether
-- agents are looked at; $4, $5, $6 bigint: after how many ms of silence one is stale, a tombstone, forgotten; $7 bigint:
-- how many events are kept.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS now
)
SELECT EXISTS (
           SELECT FROM public.tenure_jobs AS j
           WHERE j.state = 'leased' AND j.lease_expires_at <= moment.now
             AND NOT ($2::boolean AND j.leased_at < (SELECT l.began_at FROM public.tenure_job_leaders AS l WHERE l.leader_epoch = $1::bigint))
       ) OR ($3::boolean AND EXISTS (
           SELECT FROM public.tenure_job_agents AS a
           WHERE a.last_seen_at <= moment.now - interval '1 millisecond'
                 * CASE a.state WHEN 'alive' THEN $4::bigint WHEN 'stale' THEN $5::bigint ELSE $6::bigint END
       )) OR EXISTS (
           SELECT FROM public.tenure_jobs AS j WHERE j.not_before <= moment.now
       ) OR EXISTS (
           SELECT FROM public.tenure_jobs AS j WHERE j.deadline_at <= moment.now AND j.completed_at IS NULL
       ) OR EXISTS (
           SELECT FROM public.tenure_job_events AS e
           WHERE e.event_number <= (SELECT c.event_number - $7::bigint FROM public.tenure_job_changes AS c)
       ) AS has_run_out
FROM moment
