-- The first event that is kept, and the last; and by which name the events of their term go: of the last, and of one
-- that is numbered.
SELECT c.event_number AS last,
       (SELECT event_number FROM tenure_job_events ORDER BY event_number LIMIT 1) AS first,
       (SELECT history FROM tenure_job_leaders WHERE first_event <= c.event_number
        ORDER BY leader_epoch DESC LIMIT 1) AS history,
       (SELECT history FROM tenure_job_leaders WHERE first_event <= :there
        ORDER BY leader_epoch DESC LIMIT 1) AS history_there
FROM tenure_job_changes AS c
