-- Leases that are over.
    SELECT j.row_number, j.leased_by AS agent, 'lease expired' AS reason
    FROM public.tenure_jobs AS j CROSS JOIN moment
    WHERE j.state = 'leased' AND j.lease_expires_at <= moment.now
