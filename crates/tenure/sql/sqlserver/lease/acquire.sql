-- Takes the lease over if it has expired, or creates it for its first holder. One row.
-- The row, or the place where it would be, is locked first and the clock read after that: a wait must not make an
-- old "now" decide.
-- @P1 varchar(64): lease_name, @P2 varchar(128): holder_id, @P3 bigint: lease in milliseconds, @P4 bigint: highest
-- epoch that the candidate has seen, @P5 varchar(64): its nonce, @P6 bigint: the term whose renewal has run out by
-- the candidate's own clock, 0 for none, @P7 bigint: when that renewal was, in microseconds since 1970.
DECLARE @lease_name varchar(64) = @P1, @holder_id varchar(128) = @P2, @lease_ms bigint = @P3, @floor bigint = @P4,
        @nonce varchar(64) = @P5, @overdue_epoch bigint = @P6, @overdue bigint = @P7;
DECLARE @seen_holder varchar(128), @seen_epoch bigint, @seen_nonce varchar(64), @renewed_at datetime2(7),
        @expires_at datetime2(7), @now datetime2(7), @until datetime2(7), @epoch bigint, @fence bigint, @won int = 0,
        @seen_server varchar(256), @unknown_until datetime2(7), @server varchar(256) = {server}, @longest_us bigint,
        @latest datetime2(7);
-- Before the lease is locked: a raise may be waiting for this row, and nobody's renewal is to wait for that.
SELECT @fence = epoch FROM dbo.tenure_fences WHERE scope = @lease_name;
BEGIN TRANSACTION;
SELECT @seen_holder = holder_id, @seen_epoch = lease_epoch, @seen_nonce = nonce, @renewed_at = renewed_at,
       @expires_at = expires_at, @seen_server = server, @unknown_until = unknown_until
FROM {table} WITH (UPDLOCK, HOLDLOCK, ROWLOCK)
WHERE lease_name = @lease_name;
SET @now = SYSUTCDATETIME();
SET @until = DATEADD(MILLISECOND, @lease_ms % 1000, DATEADD(SECOND, @lease_ms / 1000, @now));
-- A lease that another server granted may have been renewed or taken there since, and nobody here knows: whoever
-- takes it sits a whole one out, and nobody can shorten that.
SET @longest_us = DATEDIFF_BIG(MICROSECOND, @renewed_at, @expires_at);
SET @latest = CASE WHEN @longest_us > @lease_ms * 1000
                   THEN DATEADD(MICROSECOND, @longest_us % 1000000, DATEADD(SECOND, @longest_us / 1000000, @now))
                   ELSE @until END;
-- Where terms are known and no row is there, somebody has deleted it.
SET @unknown_until = CASE WHEN @seen_server NOT IN ('', @server) OR @unknown_until > @latest THEN @latest
                          WHEN @seen_epoch IS NULL AND (@fence > 0 OR @floor > 0) THEN @until
                          ELSE COALESCE(@unknown_until, '0001-01-01') END;
SELECT @epoch = MAX(known.epoch) + 1
FROM (VALUES (@floor), (@seen_epoch), (@fence)) AS known (epoch);
IF @seen_epoch IS NULL
BEGIN
    INSERT INTO {table} (
        lease_name, holder_id, lease_epoch, acquired_at, renewed_at, expires_at, nonce, server, unknown_until)
    VALUES (@lease_name, @holder_id, @epoch, @now, @now, @until, @nonce, @server, @unknown_until);
    SET @won = 1;
END
ELSE IF @expires_at <= @now
    OR @seen_epoch = @overdue_epoch AND DATEDIFF_BIG(MICROSECOND, '1970-01-01', @renewed_at) = @overdue
BEGIN
    UPDATE {table}
    SET holder_id = @holder_id,
        lease_epoch = @epoch,
        acquired_at = @now,
        renewed_at = @now,
        expires_at = @until,
        nonce = @nonce,
        server = @server,
        unknown_until = @unknown_until
    WHERE lease_name = @lease_name AND lease_epoch = @seen_epoch AND expires_at = @expires_at;
    SET @won = @@ROWCOUNT;
END;
COMMIT TRANSACTION;
SELECT CASE WHEN @won = 1 THEN @epoch END AS won_epoch,
       CASE WHEN @unknown_until > @now THEN DATEDIFF_BIG(MICROSECOND, @now, @unknown_until) ELSE 0 END AS settle_us,
       @seen_holder AS holder_id,
       @seen_epoch AS lease_epoch,
       DATEDIFF_BIG(MICROSECOND, '1970-01-01', @renewed_at) AS renewal,
       DATEDIFF_BIG(MICROSECOND, @renewed_at, @expires_at) AS lasts_us,
       DATEDIFF_BIG(MICROSECOND, @now, @expires_at) AS left_us,
       DATEDIFF_BIG(MICROSECOND, @renewed_at, @now) AS age_us,
       CAST(CASE WHEN @seen_nonce = @nonce THEN 1 ELSE 0 END AS bit) AS ours,
       DATEDIFF_BIG(MICROSECOND, '1970-01-01', @now) AS now_us,
       @server AS server;
