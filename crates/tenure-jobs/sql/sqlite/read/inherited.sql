-- Open leases that earlier terms have granted, and to whom: which of them an agent was told of, only the agent knows.
SELECT DISTINCT j.lease_id, j.namespace, j.leased_by AS agent
FROM tenure_jobs AS j
WHERE j.state = 'leased'
  AND (SELECT l.leader_epoch FROM tenure_job_leases AS l WHERE l.lease_id = j.lease_id) < :epoch
