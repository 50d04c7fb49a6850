-- What becomes of a result, and the job. It is found in the namespace that was named, or else in that of the lease.
SELECT j.row_number, j.namespace, j.job_epoch, j.leased_by,
       CASE
           WHEN j.row_number IS NULL THEN 'not_found'
           WHEN j.job_epoch <> :job_epoch THEN 'stale_job'
           WHEN j.lease_id IS NOT :lease_id OR :agent <> j.leased_by THEN 'stale_lease'
           WHEN j.state = 'leased' AND j.lease_expires_at > :now THEN 'accepted'
           WHEN r.status = :status AND r.result IS :result AND r.error IS :error THEN 'duplicate'
           ELSE 'stale_lease'
       END AS verdict
FROM (SELECT coalesce(:namespace, (SELECT l.namespace FROM tenure_job_leases AS l WHERE l.lease_id = :lease_id),
                      'default') AS namespace) AS n
     LEFT JOIN tenure_jobs AS j ON j.namespace = n.namespace AND j.job_id = :job_id
     LEFT JOIN tenure_job_results AS r ON r.row_number = j.row_number AND j.completed_at IS NOT NULL
