-- Jobs that can be leased, of one priority above a row, in the order of age.
SELECT row_number, namespace, op, priority, pinned_agent, job_epoch, octet_length(payload) AS bytes
FROM tenure_jobs
WHERE state = 'queued' AND not_before IS NULL AND priority = :priority AND row_number > :above
ORDER BY row_number
LIMIT :most
