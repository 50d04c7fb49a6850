-- The lease as it is, without keeping it locked. One row.
-- @P1 varchar(64): lease_name, @P2 varchar(64): nonce of the candidate that asks.
DECLARE @lease_name varchar(64) = @P1, @nonce varchar(64) = @P2, @now datetime2(7) = SYSUTCDATETIME();
SELECT lease.holder_id,
       lease.lease_epoch,
       DATEDIFF_BIG(MICROSECOND, '1970-01-01', lease.renewed_at) AS renewal,
       DATEDIFF_BIG(MICROSECOND, lease.renewed_at, lease.expires_at) AS lasts_us,
       DATEDIFF_BIG(MICROSECOND, @now, lease.expires_at) AS left_us,
       DATEDIFF_BIG(MICROSECOND, lease.renewed_at, @now) AS age_us,
       CAST(CASE WHEN lease.nonce = @nonce THEN 1 ELSE 0 END AS bit) AS ours,
       DATEDIFF_BIG(MICROSECOND, '1970-01-01', @now) AS now_us,
       {server} AS server,
       CAST(CASE WHEN CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS varchar(32)) = 'READ_ONLY'
                 THEN 1 ELSE 0 END AS bit) AS standby
FROM (SELECT 1 AS one) AS here
LEFT JOIN {table} AS lease WITH (READCOMMITTED) ON lease.lease_name = @lease_name;
