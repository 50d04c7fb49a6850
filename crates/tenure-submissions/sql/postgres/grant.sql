-- What a role needs to take and to execute submissions, beside what elections need.
GRANT SELECT, INSERT, UPDATE ON public.submission_intents, public.submission_manager_leases TO {role};
GRANT SELECT, INSERT ON public.submission_attempts TO {role};
