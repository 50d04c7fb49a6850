-- Hands queued jobs to agents. A row for each that was handed over; what is queued no more, and so has a lease, is
-- left out, and so is what is overdue. (Not asked by its state: a plan made when little was queued would look for each row in the index of those.)
-- $1 bigint: the leader's epoch, $2 bigint[]: rows, $3 bigint[]: their job epochs, $4 bigint[]: which lease, from 1,
-- $5 text[]: lease ids, $6 text[]: namespaces, $7 text[]: agents, $8 bigint[]: how long each lasts, or null, $9 bigint: how
-- long one lasts where that is null, in ms.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), picked AS MATERIALIZED (
    SELECT p.row_number, p.job_epoch, p.lease, g.lease_id, g.agent, g.lease_ms
    FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS p(row_number, job_epoch, lease)
         JOIN unnest($5::text[], $7::text[], $8::bigint[]) WITH ORDINALITY AS g(lease_id, agent, lease_ms, lease)
              USING (lease)
), leased AS (
    UPDATE public.tenure_jobs AS j
    SET state = 'leased',
        lease_id = p.lease_id,
        leased_by = p.agent,
        leased_at = moment.now,
        lease_ms = p.lease_ms,
        lease_expires_at = moment.now + interval '1 millisecond' * least(coalesce(p.lease_ms, $9::bigint), j.run_ms),
        leader_epoch = $1::bigint
    FROM picked AS p CROSS JOIN moment
    WHERE j.row_number = p.row_number AND j.lease_id IS NULL AND j.job_epoch = p.job_epoch
      AND (j.deadline_at IS NULL OR j.deadline_at > moment.now)
    RETURNING j.row_number, j.namespace, j.job_id, j.job_epoch, j.op, j.payload, j.pinned_agent, j.leased_by, p.lease,
              j.lease_id
), granted AS (
    INSERT INTO public.tenure_job_leases (lease_id, namespace, agent, leader_epoch, granted_at)
    SELECT g.lease_id, g.namespace, g.agent, $1::bigint, moment.now
    FROM unnest($5::text[], $6::text[], $7::text[]) WITH ORDINALITY AS g(lease_id, namespace, agent, lease)
         CROSS JOIN moment
    WHERE EXISTS (SELECT FROM leased WHERE leased.lease = g.lease)
), told AS MATERIALIZED (
    SELECT leased.row_number AS place, leased.namespace, 'job.leased' AS kind, leased.job_id, leased.job_epoch,
           leased.leased_by AS agent, NULL::text AS detail, leased.lease_id
    FROM leased
), {tell}
SELECT leased.row_number, leased.lease, leased.job_id, leased.job_epoch, leased.op, leased.payload,
       leased.pinned_agent
FROM leased CROSS JOIN news
