-- Events between two numbers, in their order; those of a namespace and those that concern all.
SELECT event_number, namespace, kind, job_id, job_epoch, agent, detail, leader_epoch, recorded_at
FROM tenure_job_events
WHERE event_number > :above AND event_number <= :up_to AND namespace IN (:namespace, '')
ORDER BY event_number
