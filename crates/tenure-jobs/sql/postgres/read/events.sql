-- Events between two numbers, in their order; those of a namespace and those that concern all; each with the name by
-- which the events of its term go. $1 text: the namespace, $2 bigint: above this number, $3 bigint: up to this one.
SELECT e.event_number, e.namespace, e.kind, e.job_id, e.job_epoch, e.agent, e.detail, e.lease_id, e.leader_epoch,
       e.recorded_at,
       coalesce((SELECT l.history FROM public.tenure_job_leaders AS l WHERE l.leader_epoch = e.leader_epoch), '0')
           AS history
FROM public.tenure_job_events AS e
WHERE e.event_number > $2 AND e.event_number <= $3 AND e.namespace IN ($1, '')
ORDER BY e.event_number
