-- Where jobs stand that are to be taken back by name. $1 text[]: namespaces, $2 text[]: job ids, $3 bigint[]: job
-- epochs, $4 text[]: lease ids, each or null. A row for each that is there.
SELECT n.place, j.job_epoch, j.lease_expires_at IS NOT NULL AS is_leased,
       j.job_epoch <> n.job_epoch AS is_other_epoch,
       j.lease_id IS DISTINCT FROM n.lease_id AND n.lease_id IS NOT NULL AS is_other_lease
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[])
     WITH ORDINALITY AS n(namespace, job_id, job_epoch, lease_id, place)
     JOIN public.tenure_jobs AS j ON j.namespace = n.namespace AND j.job_id = n.job_id
