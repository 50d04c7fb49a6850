-- One job.
SELECT {job}
FROM tenure_jobs AS j
     LEFT JOIN tenure_job_results AS r ON r.row_number = j.row_number
WHERE j.namespace = :namespace AND j.job_id = :job_id
