-- What a role needs to run a controller, beside what elections need.
GRANT SELECT, INSERT, UPDATE ON public.tenure_jobs TO {role};
GRANT SELECT, UPDATE ON public.tenure_job_changes TO {role};
GRANT SELECT, INSERT ON public.tenure_job_leaders, public.tenure_job_leases, public.tenure_job_results TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON public.tenure_job_agents TO {role};
GRANT SELECT, INSERT, DELETE ON public.tenure_job_events TO {role};
