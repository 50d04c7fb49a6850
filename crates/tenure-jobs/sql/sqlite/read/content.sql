-- What a job was submitted with.
SELECT content_hash FROM tenure_jobs WHERE namespace = :namespace AND job_id = :job_id
