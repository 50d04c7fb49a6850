-- Queues leased jobs again, under the next job epoch. A row for each.
-- $1 bigint: the leader's epoch; which jobs, all of them leased, and more parameters, are put in from beside this file.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), chosen AS MATERIALIZED (
    {which}
), back AS (
    UPDATE public.tenure_jobs AS j
    SET state = 'queued',
        job_epoch = j.job_epoch + 1,
        lease_id = NULL,
        leased_by = NULL,
        leased_at = NULL,
        lease_expires_at = NULL,
        leader_epoch = $1::bigint
    FROM chosen
    WHERE j.row_number = chosen.row_number
    RETURNING j.row_number, j.namespace, j.job_id, j.op, j.priority, j.pinned_agent, j.job_epoch,
              octet_length(j.payload) AS bytes, chosen.agent, chosen.reason
), told AS MATERIALIZED (
    SELECT back.row_number AS place, back.namespace, 'job.expired' AS kind, back.job_id, back.job_epoch, back.agent,
           back.reason AS detail
    FROM back
), {tell}
SELECT back.row_number, back.namespace, back.op, back.priority, back.pinned_agent, back.job_epoch,
       back.bytes
FROM back CROSS JOIN news
