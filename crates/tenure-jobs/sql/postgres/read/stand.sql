-- The first event that is kept, and the last.
SELECT c.event_number AS last,
       (SELECT e.event_number FROM public.tenure_job_events AS e ORDER BY e.event_number LIMIT 1) AS first
FROM public.tenure_job_changes AS c
