-- Leases that are over, so many at a time; those of earlier terms may be spared.
SELECT row_number, leased_by, CASE WHEN leased_at + run_us <= :now THEN 'run timed out' ELSE 'lease expired' END AS reason,
       1 AS counts, coalesce(lost_leases + 1 >= max_lost_leases, 0) AS is_over
FROM tenure_jobs
WHERE state = 'leased' AND lease_expires_at <= :now
  AND NOT (:spares AND leased_at < (SELECT began_at FROM tenure_job_leaders WHERE leader_epoch = :leader_epoch))
ORDER BY row_number
LIMIT :most
