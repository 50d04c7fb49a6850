-- Forgets old events, so many at a time that nobody waits long. $1 bigint: how many stay, $2 bigint: how
-- many go at once.
DELETE FROM public.tenure_job_events
WHERE event_number <= least(
    (SELECT c.event_number - $1::bigint FROM public.tenure_job_changes AS c),
    (SELECT min(e.event_number) + $2::bigint FROM public.tenure_job_events AS e)
)
