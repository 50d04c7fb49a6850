-- Agents that fall silent are stale, then tombstones, then forgotten; so many at a time. One row: how many.
-- $1 bigint: the leader's epoch, $2, $3, $4 bigint: after how many ms of silence, $5 bigint: how many.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), silent AS MATERIALIZED (
    SELECT a.namespace, a.name,
           CASE
               WHEN a.last_seen_at <= moment.now - $4::bigint * interval '1 millisecond' THEN 'deleted'
               WHEN a.last_seen_at <= moment.now - $3::bigint * interval '1 millisecond' THEN 'tombstoned'
               ELSE 'stale'
           END AS state,
           a.state AS before
    FROM public.tenure_job_agents AS a CROSS JOIN moment
    WHERE a.last_seen_at <= moment.now - $2::bigint * interval '1 millisecond'
), aging AS MATERIALIZED (
    SELECT silent.namespace, silent.name, silent.state
    FROM silent
    WHERE silent.state = 'deleted'
       OR silent.state = 'tombstoned' AND silent.before <> 'tombstoned'
       OR silent.state = 'stale' AND silent.before = 'alive'
    LIMIT $5::bigint
), aged AS (
    UPDATE public.tenure_job_agents AS a
    SET state = aging.state, leader_epoch = $1::bigint
    FROM aging
    WHERE aging.state <> 'deleted' AND a.namespace = aging.namespace AND a.name = aging.name
), forgotten AS (
    DELETE FROM public.tenure_job_agents AS a
    USING aging
    WHERE aging.state = 'deleted' AND a.namespace = aging.namespace AND a.name = aging.name
), told AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY aging.namespace, aging.name) AS place, aging.namespace,
           CASE aging.state WHEN 'stale' THEN 'agent.stale' ELSE 'agent_' || aging.state END AS kind,
           NULL::text AS job_id, NULL::bigint AS job_epoch, aging.name AS agent, NULL::text AS detail,
           NULL::text AS lease_id
    FROM aging
), {tell}
SELECT count(told.place) AS aged FROM news LEFT JOIN told ON true
