-- By name, and only under the epoch and the lease that are named. $2 text[]: namespaces, $3 text[]: job ids,
-- $4 bigint[]: job epochs, $5 text[]: lease ids, each or null; $6 text[]: reasons.
    SELECT DISTINCT ON (j.row_number) j.row_number, j.leased_by AS agent, n.reason, false AS counts, false AS is_over
    FROM unnest($2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[])
         AS n(namespace, job_id, job_epoch, lease_id, reason)
         JOIN public.tenure_jobs AS j ON j.namespace = n.namespace AND j.job_id = n.job_id
    WHERE j.lease_expires_at IS NOT NULL
      AND j.job_epoch = coalesce(n.job_epoch, j.job_epoch)
      AND j.lease_id = coalesce(n.lease_id, j.lease_id)
