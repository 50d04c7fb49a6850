-- Events between two numbers, in their order; those of a namespace and those that concern all; each with the name by
-- which the events of its term go.
SELECT e.event_number, e.namespace, e.kind, e.job_id, e.job_epoch, e.agent, e.detail, e.lease_id, e.leader_epoch,
       e.recorded_at, coalesce(l.history, '0') AS history
FROM tenure_job_events AS e LEFT JOIN tenure_job_leaders AS l ON l.leader_epoch = e.leader_epoch
WHERE e.event_number > :above AND e.event_number <= :up_to AND e.namespace IN (:namespace, '')
ORDER BY e.event_number
