-- Jobs that have not ended by their deadline, so many at a time. $2 bigint: how many.
    SELECT j.row_number, j.leased_by AS agent, 'deadline passed' AS reason, false AS counts, true AS is_over
    FROM public.tenure_jobs AS j CROSS JOIN moment
    WHERE j.deadline_at <= moment.now AND j.completed_at IS NULL
    LIMIT $2::bigint
