-- By name.
SELECT row_number, leased_by FROM tenure_jobs WHERE namespace = :namespace AND job_id = :job_id AND state = 'leased'
