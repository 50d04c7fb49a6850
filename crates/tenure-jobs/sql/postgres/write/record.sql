-- Records results. A row for each, in any order: what became of it, and the job's epoch.
-- A job is found in the namespace that was named, or else in that of the lease. A lease that is over by this clock,
-- read when nobody else can write jobs, records nothing.
-- $1 bigint: the leader's epoch, $2 text[]: namespaces or null, $3 text[]: lease ids, $4 text[]: agents or null,
-- $5 text[]: job ids, $6 bigint[]: job epochs, $7 text[]: statuses, $8 text[]: results, $9 text[]: errors.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), asked AS MATERIALIZED (
    SELECT *
    FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::text[])
         WITH ORDINALITY AS n(namespace, lease_id, agent, job_id, job_epoch, status, result, error, place)
), judged AS MATERIALIZED (
    SELECT a.place, a.lease_id, a.status, a.result, a.error, j.row_number, j.namespace, j.job_id,
           j.job_epoch, j.leased_by,
           CASE
               WHEN j.row_number IS NULL THEN 'not_found'
               WHEN j.job_epoch <> a.job_epoch THEN 'stale_job'
               WHEN j.lease_id IS DISTINCT FROM a.lease_id OR a.agent <> j.leased_by THEN 'stale_lease'
               WHEN j.state = 'leased' AND j.lease_expires_at > moment.now THEN 'accepted'
               WHEN r.status = a.status AND r.result IS NOT DISTINCT FROM a.result
                    AND r.error IS NOT DISTINCT FROM a.error THEN 'duplicate'
               ELSE 'stale_lease'
           END AS verdict
    FROM asked AS a
         CROSS JOIN moment
         LEFT JOIN public.tenure_job_leases AS l ON l.lease_id = a.lease_id
         LEFT JOIN public.tenure_jobs AS j
             ON j.namespace = coalesce(a.namespace, l.namespace, 'default') AND j.job_id = a.job_id
         LEFT JOIN public.tenure_job_results AS r ON r.row_number = j.row_number AND j.completed_at IS NOT NULL
), ended AS (
    UPDATE public.tenure_jobs AS j
    SET state = n.status, completed_at = moment.now, lease_expires_at = NULL, leader_epoch = $1::bigint
    FROM judged AS n CROSS JOIN moment
    WHERE n.verdict = 'accepted' AND j.row_number = n.row_number
), kept AS (
    INSERT INTO public.tenure_job_results (
        row_number, job_epoch, lease_id, status, result, error, leader_epoch, recorded_at
    )
    SELECT n.row_number, n.job_epoch, n.lease_id, n.status, n.result, n.error, $1::bigint, moment.now
    FROM judged AS n CROSS JOIN moment
    WHERE n.verdict = 'accepted'
), told AS MATERIALIZED (
    SELECT 2 * n.place AS place, n.namespace,
           CASE n.verdict
               WHEN 'accepted' THEN 'job.result.accepted'
               WHEN 'duplicate' THEN 'job.result.duplicate'
               ELSE 'job.result.rejected'
           END AS kind,
           n.job_id, n.job_epoch, n.leased_by AS agent,
           CASE WHEN n.verdict IN ('accepted', 'duplicate') THEN n.status ELSE n.verdict END AS detail
    FROM judged AS n
    WHERE n.verdict <> 'not_found'
    UNION ALL
    SELECT 2 * n.place + 1, n.namespace, 'job.completed', n.job_id, n.job_epoch, n.leased_by, n.status
    FROM judged AS n
    WHERE n.verdict = 'accepted'
), {tell}
SELECT judged.place, judged.verdict, judged.job_epoch FROM judged CROSS JOIN news
