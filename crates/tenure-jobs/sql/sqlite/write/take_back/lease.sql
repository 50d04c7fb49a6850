-- A lease that no agent knows of.
SELECT row_number, leased_by FROM tenure_jobs WHERE state = 'leased' AND lease_id = :lease_id ORDER BY row_number
