-- Who led last.
SELECT l.leader_epoch, l.leader_id, l.leader_url
FROM public.tenure_job_leaders AS l
ORDER BY l.leader_epoch DESC
LIMIT 1
