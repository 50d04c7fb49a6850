-- Agents of a namespace.
SELECT name, namespace, state, labels, capabilities, worker_profile, metrics, leader_epoch, first_seen_at,
       last_seen_at
FROM tenure_job_agents
WHERE namespace = :namespace
ORDER BY name
