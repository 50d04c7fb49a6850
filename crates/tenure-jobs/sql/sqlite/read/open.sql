-- How many leases are open.
SELECT count(*) FROM tenure_jobs WHERE state = 'leased'
