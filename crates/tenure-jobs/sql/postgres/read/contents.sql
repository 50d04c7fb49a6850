-- What jobs were submitted with. $1 text[]: namespaces, $2 text[]: ids.
SELECT j.namespace, j.job_id, j.content_hash
FROM unnest($1::text[], $2::text[]) AS n(namespace, job_id)
     JOIN public.tenure_jobs AS j ON j.namespace = n.namespace AND j.job_id = n.job_id
