-- Forgets old events.
DELETE FROM tenure_job_events
WHERE event_number <= (SELECT event_number - :kept FROM tenure_job_changes)
