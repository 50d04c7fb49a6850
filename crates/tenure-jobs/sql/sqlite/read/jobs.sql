-- Jobs of a namespace, the newest first; whatever is null does not choose.
SELECT {job}
FROM tenure_jobs AS j
     LEFT JOIN tenure_job_results AS r ON r.row_number = j.row_number
WHERE j.namespace = :namespace
  AND j.state = coalesce(:state, j.state)
  AND (:agent IS NULL OR j.leased_by = :agent)
  AND j.op = coalesce(:op, j.op)
  AND (:since IS NULL OR j.created_at >= :since)
ORDER BY j.row_number DESC
LIMIT :most
