-- Records results. A row for each, in any order: what became of it, the job's epoch, and the job if it can be leased
-- again: it was given back, or failed and may be tried once more, after a pause that doubles up to an hour.
-- A job is found in the namespace that was named, or else in that of the lease. A lease that is over by this clock,
-- read when nobody else can write jobs, records nothing.
-- $1 bigint: the leader's epoch, $2 text[]: namespaces or null, $3 text[]: lease ids, $4 text[]: agents or null,
-- $5 text[]: job ids, $6 bigint[]: job epochs, $7 text[]: statuses, $8 text[]: results, $9 text[]: errors,
-- $10 text[]: errors that are not texts, $11 boolean: whether what earlier terms granted counts though
-- it ran out.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), asked AS MATERIALIZED (
    SELECT *
    FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::text[],
                $10::text[])
         WITH ORDINALITY
         AS n(namespace, lease_id, agent, job_id, job_epoch, status, result, error, error_value, place)
), judged AS MATERIALIZED (
    SELECT a.place, a.lease_id, a.status, a.result, a.error, a.error_value, j.row_number, j.namespace, j.job_id,
           j.job_epoch, j.leased_by,
           CASE
               WHEN j.row_number IS NULL AND l.namespace = coalesce(a.namespace, l.namespace) THEN 'not_found'
               WHEN j.row_number IS NULL THEN 'stale_lease'
               WHEN j.job_epoch = a.job_epoch + 1 AND j.left_lease = a.lease_id AND a.status <> 'succeeded'
                   THEN 'duplicate'
               WHEN j.job_epoch <> a.job_epoch THEN 'stale_job'
               WHEN j.lease_id IS DISTINCT FROM a.lease_id OR a.agent <> j.leased_by THEN 'stale_lease'
               WHEN j.state = 'leased' AND (j.lease_expires_at > moment.now OR $11::boolean
                    AND j.leased_at < (SELECT l.began_at FROM public.tenure_job_leaders AS l WHERE l.leader_epoch = $1::bigint))
                   THEN 'accepted'
               WHEN r.status = a.status AND r.result IS NOT DISTINCT FROM a.result
                    AND r.error IS NOT DISTINCT FROM a.error
                    AND r.error_value IS NOT DISTINCT FROM a.error_value THEN 'duplicate'
               ELSE 'stale_lease'
           END AS verdict,
           a.status = 'given_back' OR a.status = 'failed' AND coalesce(j.failures + 1 < j.max_failures, false) AS goes_on
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
    WHERE n.verdict = 'accepted' AND NOT n.goes_on AND j.row_number = n.row_number
), back AS (
    UPDATE public.tenure_jobs AS j
    SET state = 'queued',
        job_epoch = j.job_epoch + 1,
        failures = j.failures + (n.status = 'failed')::integer,
        not_before = CASE
            WHEN n.status = 'failed' THEN moment.now + interval '1 millisecond'
                * least(3600000, coalesce(j.retry_ms, 1000) * 2 ^ least(j.failures, 20))
        END,
        left_lease = j.lease_id,
        lease_id = NULL,
        leased_by = NULL,
        leased_at = NULL,
        lease_expires_at = NULL,
        leader_epoch = $1::bigint
    FROM judged AS n CROSS JOIN moment
    WHERE n.verdict = 'accepted' AND n.goes_on AND j.row_number = n.row_number
    RETURNING j.row_number, j.namespace, j.op, j.priority, j.pinned_agent, j.job_epoch,
              octet_length(j.payload) AS bytes, j.not_before IS NULL AS is_ready
), kept AS (
    INSERT INTO public.tenure_job_results (
        row_number, job_epoch, lease_id, status, result, error, error_value, leader_epoch, recorded_at
    )
    SELECT n.row_number, n.job_epoch, n.lease_id, n.status, n.result, n.error, n.error_value, $1::bigint, moment.now
    FROM judged AS n CROSS JOIN moment
    WHERE n.verdict = 'accepted' AND NOT n.goes_on
), told AS MATERIALIZED (
    SELECT 2 * n.place AS place, n.namespace,
           CASE n.verdict
               WHEN 'accepted' THEN 'job.result.accepted'
               WHEN 'duplicate' THEN 'job.result.duplicate'
               ELSE 'job.result.rejected'
           END AS kind,
           n.job_id, n.job_epoch, n.leased_by AS agent,
           CASE WHEN n.verdict IN ('accepted', 'duplicate') THEN n.status ELSE n.verdict END AS detail,
           NULL::text AS lease_id
    FROM judged AS n
    WHERE n.row_number IS NOT NULL
    UNION ALL
    SELECT 2 * n.place + 1, n.namespace, CASE WHEN n.goes_on THEN 'job.updated' ELSE 'job.completed' END, n.job_id,
           n.job_epoch + n.goes_on::integer, n.leased_by, CASE WHEN n.goes_on THEN 'queued' ELSE n.status END, NULL
    FROM judged AS n
    WHERE n.verdict = 'accepted'
), {tell}
SELECT judged.place, judged.verdict, judged.job_epoch AS told_epoch, back.row_number, back.namespace, back.op,
       back.priority, back.pinned_agent, back.job_epoch, back.bytes, back.is_ready
FROM judged LEFT JOIN back ON back.row_number = judged.row_number CROSS JOIN news
