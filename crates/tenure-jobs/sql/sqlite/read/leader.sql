-- Who led last.
SELECT leader_epoch, leader_id, leader_url FROM tenure_job_leaders ORDER BY leader_epoch DESC LIMIT 1
