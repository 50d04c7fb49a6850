-- The leases of a table, with the time that is left by this server's clock. For any role that may read it.
-- The table's quoted name is filled in. @P1 nvarchar(200): a scope, or the empty string for all.
DECLARE @now datetime2(7) = SYSUTCDATETIME();
SELECT lease.lease_name AS scope,
       lease.holder_id AS holder,
       lease.lease_epoch AS epoch,
       CAST(CASE WHEN lease.expires_at > @now THEN 1 ELSE 0 END AS bit) AS held,
       CASE WHEN lease.expires_at > @now THEN DATEDIFF_BIG(MILLISECOND, @now, lease.expires_at)
            ELSE CAST(0 AS bigint) END AS left_ms
FROM dbo.{table} AS lease
WHERE @P1 = N'' OR lease.lease_name = CAST(@P1 AS varchar(64));
