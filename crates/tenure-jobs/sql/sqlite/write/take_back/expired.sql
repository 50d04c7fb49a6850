-- Leases that are over.
SELECT row_number, leased_by FROM tenure_jobs WHERE state = 'leased' AND lease_expires_at <= :now ORDER BY row_number
