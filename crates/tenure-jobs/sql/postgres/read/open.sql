-- How many leases are open.
SELECT count(*) AS open FROM public.tenure_jobs AS j WHERE j.state = 'leased'
