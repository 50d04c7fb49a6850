-- What an agent has, so many at a time. $2 text: its namespace, or null for every one; $3 text: its name; $4 text: why;
-- $5 bigint: how many.
    SELECT j.row_number, j.leased_by AS agent, $4::text AS reason, false AS counts, false AS is_over
    FROM public.tenure_jobs AS j
    WHERE j.state = 'leased' AND j.leased_by = $3::text AND j.namespace = coalesce($2::text, j.namespace)
    LIMIT $5::bigint
