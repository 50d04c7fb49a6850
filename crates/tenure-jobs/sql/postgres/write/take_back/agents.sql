-- All that these agents have. $2 text[]: namespaces, or null for every one; $3 text[]: names; $4 text: why.
    SELECT DISTINCT j.row_number, j.leased_by AS agent, $4::text AS reason
    FROM unnest($2::text[], $3::text[]) AS n(namespace, name)
         JOIN public.tenure_jobs AS j ON j.leased_by = n.name AND j.namespace = coalesce(n.namespace, j.namespace)
    WHERE j.state = 'leased'
