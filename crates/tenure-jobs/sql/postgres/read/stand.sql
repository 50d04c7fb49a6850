-- The first event that is kept, and the last; and by which name the events of their term go: of the last, and of the
-- one that $1 bigint numbers.
SELECT c.event_number AS last,
       (SELECT e.event_number FROM public.tenure_job_events AS e ORDER BY e.event_number LIMIT 1) AS first,
       (SELECT l.history
        FROM public.tenure_job_leaders AS l
        WHERE l.first_event <= c.event_number
        ORDER BY l.leader_epoch DESC LIMIT 1) AS history,
       (SELECT l.history
        FROM public.tenure_job_leaders AS l
        WHERE l.first_event <= $1
        ORDER BY l.leader_epoch DESC LIMIT 1) AS history_there
FROM public.tenure_job_changes AS c
