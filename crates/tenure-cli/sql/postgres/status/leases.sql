-- The leases of a table, with the time that is left by this server's clock. For any role that may read it.
-- The table's quoted name is filled in. $1 text: a scope, or null for all.
SELECT lease.lease_name AS scope,
       lease.holder_id AS holder,
       lease.lease_epoch AS epoch,
       lease.expires_at > clock.now AS held,
       greatest(extract(epoch FROM lease.expires_at - clock.now) * 1000, 0)::bigint AS left_ms
FROM {table} AS lease
CROSS JOIN (SELECT clock_timestamp() AS now) AS clock
WHERE $1 IS NULL OR lease.lease_name = $1
