-- Agents of a namespace. $1 text: the namespace.
SELECT a.name, a.namespace, a.state, a.labels, a.capabilities, a.worker_profile, a.metrics, a.leader_epoch,
       a.first_seen_at, a.last_seen_at
FROM public.tenure_job_agents AS a
WHERE a.namespace = $1
ORDER BY a.name
