-- Proves the term, and extends the lease, if it is still this term's and has not expired. One row if so, none
-- otherwise. The row is locked first and the clock read after that: behind any kind of blocker, a renewal that
-- waited past the expiry is refused. By a clock that was set back the expiry would move back: then it stays, and
-- extends is 0.
-- @P1 varchar(64): lease_name, @P2 varchar(128): holder_id, @P3 bigint: lease_epoch, @P4 bigint: lease in
-- milliseconds.
DECLARE @lease_name varchar(64) = @P1, @holder_id varchar(128) = @P2, @epoch bigint = @P3, @lease_ms bigint = @P4;
DECLARE @expires_at datetime2(7), @now datetime2(7), @until datetime2(7), @renewed int = 0;
BEGIN TRANSACTION;
SELECT @expires_at = expires_at
FROM {table} WITH (UPDLOCK, ROWLOCK)
WHERE lease_name = @lease_name;
SET @now = SYSUTCDATETIME();
SET @until = DATEADD(MILLISECOND, @lease_ms % 1000, DATEADD(SECOND, @lease_ms / 1000, @now));
IF @expires_at > @now
BEGIN
    UPDATE {table}
    SET renewed_at = CASE WHEN @until >= @expires_at THEN @now ELSE renewed_at END,
        expires_at = CASE WHEN @until >= @expires_at THEN @until ELSE expires_at END
    WHERE lease_name = @lease_name
      AND holder_id = @holder_id
      AND lease_epoch = @epoch
      AND expires_at = @expires_at;
    SET @renewed = @@ROWCOUNT;
END;
COMMIT TRANSACTION;
SELECT CAST(CASE WHEN @until >= @expires_at THEN 1 ELSE 0 END AS bit) AS extends,
       DATEDIFF_BIG(MICROSECOND, '1970-01-01', @now) AS now_us,
       {server} AS server
WHERE @renewed = 1;
