-- The first change of a term: who leads from now on and where, and by which name its events go.
-- $1 bigint: the leader's epoch, $2 text: its scope, $3 text: its id, $4 text: its URL, $5 text: the name of its events.
WITH claimed AS (
    UPDATE public.tenure_job_changes SET scope = $2::text WHERE scope <> $2::text
)
INSERT INTO public.tenure_job_leaders (leader_epoch, leader_id, leader_url, began_at, history, first_event)
SELECT $1::bigint, $3::text, $4::text, clock_timestamp(), $5::text, c.event_number + 1
FROM public.tenure_job_changes AS c
