-- Open leases that earlier terms have granted, and to whom: which of them an agent was told of, only the agent knows.
-- (Each lease is looked up by itself: a plan that joins may read all that were ever granted.)
-- $1 bigint: this term's epoch.
SELECT DISTINCT j.lease_id, j.namespace, j.leased_by AS agent
FROM public.tenure_jobs AS j
WHERE j.state = 'leased'
  AND (SELECT l.leader_epoch FROM public.tenure_job_leases AS l WHERE l.lease_id = j.lease_id) < $1::bigint
