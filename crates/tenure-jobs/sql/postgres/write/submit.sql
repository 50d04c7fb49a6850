-- Stores jobs, each at most once. A row for each that is new; what has its name stays as it is.
-- $1 bigint: the leader's epoch, $2 text[]: namespaces, $3 text[]: job ids, $4 text[]: ops, $5 text[]: payloads,
-- $6 bytea[]: content hashes, $7 smallint[]: priorities, $8 text[]: pinned agents; of each or null: $9 integer[]: how
-- many lost leases and $10 integer[]: how many failures end it, $11 bigint[]: the pause after the first failure,
-- $12 bigint[]: how long a run may take, $13 bigint[]: how long until it must have ended, all in ms.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), added AS (
    INSERT INTO public.tenure_jobs (
        namespace, job_id, op, payload, content_hash, priority, pinned_agent, leader_epoch, created_at,
        max_lost_leases, max_failures, retry_ms, run_ms, deadline_at
    )
    SELECT n.namespace, n.job_id, n.op, n.payload, n.content_hash, n.priority, n.pinned_agent, $1::bigint, moment.now,
           n.max_lost_leases, n.max_failures, n.retry_ms, n.run_ms,
           moment.now + n.deadline_ms * interval '1 millisecond'
    FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::smallint[], $8::text[],
                $9::integer[], $10::integer[], $11::bigint[], $12::bigint[], $13::bigint[])
         WITH ORDINALITY
         AS n(namespace, job_id, op, payload, content_hash, priority, pinned_agent, max_lost_leases, max_failures,
              retry_ms, run_ms, deadline_ms, place)
         CROSS JOIN moment
    ORDER BY n.place
    ON CONFLICT (namespace, job_id) DO NOTHING
    RETURNING row_number, namespace, job_id
), told AS MATERIALIZED (
    SELECT added.row_number AS place, added.namespace, 'job.updated' AS kind, added.job_id, 1 AS job_epoch,
           NULL::text AS agent, 'queued' AS detail, NULL::text AS lease_id
    FROM added
), {tell}
SELECT added.row_number, added.namespace, added.job_id FROM added CROSS JOIN news
