-- Tells everybody that somebody else leads.
-- $1 bigint: the leader's epoch, $2 text: its id, $3 text: its URL.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), told AS MATERIALIZED (
    SELECT 1 AS place, '' AS namespace, 'role.changed' AS kind, NULL::text AS job_id, NULL::bigint AS job_epoch,
           $2::text AS agent, $3::text AS detail, NULL::text AS lease_id
), {tell}
SELECT count(*) FROM news
