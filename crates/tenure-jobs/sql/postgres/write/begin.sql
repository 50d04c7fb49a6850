-- Begins a change, right after the fence: whoever writes jobs waits here, and nowhere else.
SELECT scope FROM public.tenure_job_changes FOR UPDATE
