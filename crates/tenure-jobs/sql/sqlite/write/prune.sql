-- Forgets events up to a number.
DELETE FROM tenure_job_events WHERE event_number <= :up_to
