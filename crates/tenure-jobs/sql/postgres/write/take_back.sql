-- Takes jobs back: they are queued again, under the next job epoch, or have failed if that was once too often. A row
-- for each that is queued.
-- $1 bigint: the leader's epoch; which jobs, and more parameters, are put in from beside this file: why each comes back,
-- whether that counts as a lease that was lost, and whether it is over with it.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), chosen AS MATERIALIZED (
    {which}
), back AS (
    UPDATE public.tenure_jobs AS j
    SET state = CASE WHEN chosen.is_over THEN 'failed' ELSE 'queued' END,
        job_epoch = j.job_epoch + 1,
        lost_leases = j.lost_leases + chosen.counts::integer,
        lease_id = CASE WHEN chosen.is_over THEN coalesce(j.lease_id, '') END,
        leased_by = CASE WHEN chosen.is_over THEN j.leased_by END,
        leased_at = CASE WHEN chosen.is_over THEN j.leased_at END,
        lease_expires_at = NULL,
        not_before = NULL,
        completed_at = CASE WHEN chosen.is_over THEN moment.now END,
        leader_epoch = $1::bigint
    FROM chosen CROSS JOIN moment
    WHERE j.row_number = chosen.row_number
    RETURNING j.row_number, j.namespace, j.job_id, j.op, j.priority, j.pinned_agent, j.job_epoch,
              octet_length(j.payload) AS bytes, j.lease_id, j.lost_leases, chosen.agent, chosen.reason, chosen.counts,
              chosen.is_over
), kept AS (
    INSERT INTO public.tenure_job_results (row_number, job_epoch, lease_id, status, error, leader_epoch, recorded_at)
    SELECT back.row_number, back.job_epoch, back.lease_id, 'failed',
           CASE WHEN back.counts THEN format('%s, for the %s. time', back.reason, back.lost_leases) ELSE back.reason END,
           $1::bigint, moment.now
    FROM back CROSS JOIN moment
    WHERE back.is_over
), told AS MATERIALIZED (
    SELECT 2 * back.row_number AS place, back.namespace, 'job.expired' AS kind, back.job_id, back.job_epoch,
           back.agent, back.reason AS detail, NULL::text AS lease_id
    FROM back
    UNION ALL
    SELECT 2 * back.row_number + 1, back.namespace, 'job.completed', back.job_id, back.job_epoch, back.agent, 'failed',
           NULL
    FROM back
    WHERE back.is_over
), {tell}
SELECT back.row_number, back.namespace, back.op, back.priority, back.pinned_agent, back.job_epoch, back.bytes,
       back.is_over
FROM back CROSS JOIN news
