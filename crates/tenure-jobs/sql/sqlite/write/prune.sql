-- Forgets events up to a number, so many at a time that nobody waits long.
DELETE FROM tenure_job_events
WHERE event_number <= min(:up_to, (SELECT min(event_number) + :most FROM tenure_job_events))
