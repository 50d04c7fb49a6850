-- Forgets old events. $1 bigint: how many stay.
DELETE FROM public.tenure_job_events
WHERE event_number <= (SELECT c.event_number - $1::bigint FROM public.tenure_job_changes AS c)
