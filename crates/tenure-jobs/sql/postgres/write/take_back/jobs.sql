-- By name. $2 text[]: namespaces, $3 text[]: job ids, $4 text[]: reasons.
    SELECT DISTINCT ON (j.row_number) j.row_number, j.leased_by AS agent, n.reason
    FROM unnest($2::text[], $3::text[], $4::text[]) AS n(namespace, job_id, reason)
         JOIN public.tenure_jobs AS j ON j.namespace = n.namespace AND j.job_id = n.job_id
    WHERE j.lease_expires_at IS NOT NULL
