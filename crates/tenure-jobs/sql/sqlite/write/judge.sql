-- What becomes of a result, and the job. It is found in the namespace that was named, or else in that of the lease.
SELECT j.row_number, j.namespace, j.job_epoch, j.leased_by,
       CASE
           WHEN j.row_number IS NULL AND n.of_lease = n.namespace THEN 'not_found'
           WHEN j.row_number IS NULL THEN 'stale_lease'
           WHEN j.job_epoch = :job_epoch + 1 AND j.left_lease = :lease_id AND :status <> 'succeeded' THEN 'duplicate'
           WHEN j.job_epoch <> :job_epoch THEN 'stale_job'
           WHEN j.lease_id IS NOT :lease_id OR :agent <> j.leased_by THEN 'stale_lease'
           WHEN j.state = 'leased' AND (j.lease_expires_at > :now OR :spares AND j.leased_at < (SELECT began_at FROM tenure_job_leaders WHERE leader_epoch = :leader_epoch)) THEN 'accepted'
           WHEN r.status = :status AND r.result IS :result AND r.error IS :error AND r.error_value IS :error_value
               THEN 'duplicate'
           ELSE 'stale_lease'
       END AS verdict,
       :status = 'given_back' OR :status = 'failed' AND coalesce(j.failures + 1 < j.max_failures, 0) AS goes_on
FROM (
         SELECT coalesce(:namespace, l.namespace, 'default') AS namespace, l.namespace AS of_lease
         FROM (SELECT 1) LEFT JOIN tenure_job_leases AS l ON l.lease_id = :lease_id
     ) AS n
     LEFT JOIN tenure_jobs AS j ON j.namespace = n.namespace AND j.job_id = :job_id
     LEFT JOIN tenure_job_results AS r ON r.row_number = j.row_number AND j.completed_at IS NOT NULL
