-- By name: where it stands. It is taken back if it is leased, under the epoch and the lease that are named.
SELECT row_number, leased_by, job_epoch, state = 'leased' AS is_leased,
       coalesce(job_epoch <> :job_epoch, 0) AS is_other_epoch,
       :lease_id IS NOT NULL AND lease_id IS NOT :lease_id AS is_other_lease
FROM tenure_jobs
WHERE namespace = :namespace AND job_id = :job_id
