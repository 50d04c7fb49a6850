-- Jobs that can be leased, of one priority above a row, in the order of age. $1 smallint: the priority, $2 bigint:
-- the row, $3 bigint: how many. (Compared as a pair, which only the index of queued jobs serves: by the row alone the
-- planner may walk over all that have ended.)
SELECT j.row_number, j.namespace, j.op, j.priority, j.pinned_agent, j.job_epoch,
       octet_length(j.payload) AS bytes
FROM public.tenure_jobs AS j
WHERE j.state = 'queued' AND j.not_before IS NULL AND j.priority = $1 AND (j.priority, j.row_number) > ($1, $2)
ORDER BY j.row_number
LIMIT $3
