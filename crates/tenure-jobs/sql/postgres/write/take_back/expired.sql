-- Leases that are over, so many at a time. $2 bigint: how many, $3 boolean: whether those of earlier terms are spared.
    SELECT j.row_number, j.leased_by AS agent,
           CASE
               WHEN j.leased_at + j.run_ms * interval '1 millisecond' <= moment.now THEN 'run timed out'
               ELSE 'lease expired'
           END AS reason,
           true AS counts, coalesce(j.lost_leases + 1 >= j.max_lost_leases, false) AS is_over
    FROM public.tenure_jobs AS j CROSS JOIN moment
    WHERE j.state = 'leased' AND j.lease_expires_at <= moment.now
      AND NOT ($3::boolean AND j.leased_at < (SELECT l.began_at FROM public.tenure_job_leaders AS l WHERE l.leader_epoch = $1::bigint))
    LIMIT $2::bigint
