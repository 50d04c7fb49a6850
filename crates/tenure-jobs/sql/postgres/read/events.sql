-- Events between two numbers, in their order; those of a namespace and those that concern all.
-- $1 text: the namespace, $2 bigint: above this number, $3 bigint: up to this one.
SELECT e.event_number, e.namespace, e.kind, e.job_id, e.job_epoch, e.agent, e.detail, e.leader_epoch, e.recorded_at
FROM public.tenure_job_events AS e
WHERE e.event_number > $2 AND e.event_number <= $3 AND e.namespace IN ($1, '')
ORDER BY e.event_number
