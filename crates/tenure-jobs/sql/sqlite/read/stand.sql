-- The first event that is kept, and the last.
SELECT event_number AS last,
       (SELECT event_number FROM tenure_job_events ORDER BY event_number LIMIT 1) AS first
FROM tenure_job_changes
