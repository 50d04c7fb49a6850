-- Hears agents: each is alive, and what it works on stays its own: the leases that it names, or all in its name. A
-- lease is moved ahead when a third of it has passed, so that most jobs end without.
-- $1 bigint: the leader's epoch, $2 text[]: namespaces, $3 text[]: names, $4 text[]: labels, $5 text[]: capabilities,
-- $6 text[]: profiles, $7 text[]: metrics, $8 boolean[]: whether it names its leases, $9 bigint[] and $10 text[]: who
-- names which, from 1; $11 bigint: how long a lease lasts, in ms.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), heard AS MATERIALIZED (
    SELECT *
    FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::boolean[])
         WITH ORDINALITY AS n(namespace, name, labels, capabilities, worker_profile, metrics, names_leases, place)
), extended AS (
    UPDATE public.tenure_jobs AS j
    SET lease_expires_at = moment.now + $11::bigint * interval '1 millisecond', leader_epoch = $1::bigint
    FROM heard CROSS JOIN moment
    WHERE j.state = 'leased' AND j.namespace = heard.namespace AND j.leased_by = heard.name
      AND (NOT heard.names_leases OR EXISTS (
          SELECT FROM unnest($9::bigint[], $10::text[]) AS named(place, lease_id)
          WHERE named.place = heard.place AND named.lease_id = j.lease_id
      ))
      AND j.lease_expires_at > moment.now
      AND j.lease_expires_at < moment.now + $11::bigint * interval '1 millisecond' * 2 / 3
)
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
