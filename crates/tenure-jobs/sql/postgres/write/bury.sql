-- Makes tombstones of agents. A row for each that was none before.
-- $1 bigint: the leader's epoch, $2 text[]: namespaces, $3 text[]: names.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), buried AS (
    UPDATE public.tenure_job_agents AS a
    SET state = 'tombstoned', leader_epoch = $1::bigint
    FROM unnest($2::text[], $3::text[]) AS n(namespace, name)
    WHERE a.namespace = n.namespace AND a.name = n.name AND a.state <> 'tombstoned'
    RETURNING a.namespace, a.name
), told AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY buried.namespace, buried.name) AS place, buried.namespace,
           'agent_tombstoned' AS kind, NULL::text AS job_id, NULL::bigint AS job_epoch, buried.name AS agent,
           'asked' AS detail, NULL::text AS lease_id
    FROM buried
), {tell}
SELECT buried.namespace, buried.name FROM buried CROSS JOIN news
