-- Jobs that have waited long enough for their next run, so many at a time. A row for each.
-- $1 bigint: the leader's epoch, $2 bigint: how many.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), ready AS MATERIALIZED (
    SELECT j.row_number
    FROM public.tenure_jobs AS j CROSS JOIN moment
    WHERE j.not_before <= moment.now
    ORDER BY j.not_before
    LIMIT $2::bigint
), woken AS (
    UPDATE public.tenure_jobs AS j
    SET not_before = NULL, leader_epoch = $1::bigint
    FROM ready
    WHERE j.row_number = ready.row_number
    RETURNING j.row_number, j.namespace, j.job_id, j.op, j.priority, j.pinned_agent, j.job_epoch,
              octet_length(j.payload) AS bytes
), told AS MATERIALIZED (
    SELECT woken.row_number AS place, woken.namespace, 'job.updated' AS kind, woken.job_id, woken.job_epoch,
           NULL::text AS agent, 'queued' AS detail, NULL::text AS lease_id
    FROM woken
), {tell}
SELECT woken.row_number, woken.namespace, woken.op, woken.priority, woken.pinned_agent, woken.job_epoch, woken.bytes
FROM woken CROSS JOIN news
