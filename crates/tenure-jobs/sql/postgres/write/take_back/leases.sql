-- Leases that no agent knows of. $2 text[]: which.
    SELECT j.row_number, j.leased_by AS agent, 'the agent was not told' AS reason, false AS counts, false AS is_over
    FROM public.tenure_jobs AS j
    WHERE j.state = 'leased' AND j.lease_id = ANY ($2::text[])
