-- Hears agents: each is alive, and what it works on stays its own: the leases that it names, or all in its name. A
-- lease is moved ahead when a third of it has passed, so that most jobs end without; never past the time that one run
-- of the job may take, and where no lease is named, never past ten of them: nobody has said that it is worked on.
-- A row that says how many were moved ahead, and one for each lease that is named and gone.
-- $1 bigint: the leader's epoch, $2 text[]: namespaces, $3 text[]: names, $4 text[]: labels, $5 text[]: capabilities,
-- $6 text[]: profiles, $7 text[]: metrics, $8 boolean[]: whether it names its leases, $9 bigint[] and $10 text[]: who
-- names which, from 1; $11 bigint: how long a lease lasts, in ms; $12 boolean: whether what earlier terms
-- granted counts though it ran out;
-- $13 bigint: how many are moved ahead at most.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), heard AS MATERIALIZED (
    SELECT *
    FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::boolean[])
         WITH ORDINALITY AS n(namespace, name, labels, capabilities, worker_profile, metrics, names_leases, place)
), named AS MATERIALIZED (
    SELECT named.place, named.lease_id FROM unnest($9::bigint[], $10::text[]) AS named(place, lease_id)
), held AS MATERIALIZED (
    SELECT heard.place, heard.names_leases, j.row_number, j.lease_id, j.leased_at, j.run_ms, j.lease_expires_at,
           coalesce(j.lease_ms, $11::bigint) AS lasts
    FROM heard CROSS JOIN moment
         JOIN public.tenure_jobs AS j ON j.namespace = heard.namespace AND j.leased_by = heard.name
    WHERE j.state = 'leased'
      AND (j.lease_expires_at > moment.now OR $12::boolean
           AND j.leased_at < (SELECT l.began_at FROM public.tenure_job_leaders AS l WHERE l.leader_epoch = $1::bigint))
), due AS MATERIALIZED (
    SELECT held.row_number, bounded.until
    FROM held CROSS JOIN moment
         CROSS JOIN LATERAL (
             SELECT least(
                 moment.now + held.lasts * interval '1 millisecond',
                 held.leased_at + interval '1 millisecond'
                     * coalesce(held.run_ms, CASE WHEN NOT held.names_leases THEN 10 * held.lasts END)
             ) AS until
         ) AS bounded
    WHERE (NOT held.names_leases OR (held.place, held.lease_id) IN (SELECT named.place, named.lease_id FROM named))
      AND held.lease_expires_at < moment.now + held.lasts * interval '1 millisecond' * 2 / 3
      AND held.lease_expires_at < bounded.until
    LIMIT $13::bigint
), extended AS (
    UPDATE public.tenure_jobs AS j
    SET lease_expires_at = due.until, leader_epoch = $1::bigint
    FROM due
    WHERE j.row_number = due.row_number
    RETURNING j.row_number
), known AS (
    INSERT INTO public.tenure_job_agents AS known (
        namespace, name, state, labels, capabilities, worker_profile, metrics, leader_epoch, first_seen_at, last_seen_at
    )
    SELECT heard.namespace, heard.name, 'alive', heard.labels, heard.capabilities, heard.worker_profile, heard.metrics,
           $1::bigint, moment.now, moment.now
    FROM heard CROSS JOIN moment
    ON CONFLICT (namespace, name) DO UPDATE
    SET state = 'alive',
        labels = excluded.labels,
        capabilities = excluded.capabilities,
        worker_profile = excluded.worker_profile,
        metrics = excluded.metrics,
        leader_epoch = excluded.leader_epoch,
        last_seen_at = excluded.last_seen_at
)
SELECT 0::bigint AS place, NULL::text AS lease_id, count(*) AS extended FROM extended
UNION ALL
SELECT gone.place, gone.lease_id, 0
FROM (SELECT named.place, named.lease_id FROM named EXCEPT SELECT held.place, held.lease_id FROM held) AS gone
