-- One job. $1 text: its namespace, $2 text: its id.
SELECT {job}
FROM public.tenure_jobs AS j
     LEFT JOIN public.tenure_job_results AS r ON r.row_number = j.row_number
WHERE j.namespace = $1 AND j.job_id = $2
