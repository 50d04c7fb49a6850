-- Jobs of a namespace, the newest first. $1 text: the namespace, $2 text: a state, $3 text: an agent, $4 text: an op,
-- $5 timestamptz: since when, each or null; $6 bigint: how many.
SELECT {job}
FROM public.tenure_jobs AS j
     LEFT JOIN public.tenure_job_results AS r ON r.row_number = j.row_number
WHERE j.namespace = $1
  AND j.state = coalesce($2, j.state)
  AND ($3::text IS NULL OR j.leased_by = $3)
  AND j.op = coalesce($4, j.op)
  AND ($5::timestamptz IS NULL OR j.created_at >= $5)
ORDER BY j.row_number DESC
LIMIT $6
