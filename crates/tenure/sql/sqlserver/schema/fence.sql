-- The fence for any client: call it first in a transaction, with the term that you act in.
--   @scope, @holder, @epoch: as in TENURE_SCOPE, TENURE_NODE_ID and TENURE_EPOCH.
-- It returns when the term may write, and keeps a takeover out until the transaction ends.
-- It throws 51001 when the term is over; never retry that under the same epoch. Behind it, in brackets, is where
-- the fence stands.
-- Call it between BEGIN TRANSACTION and COMMIT, with XACT_ABORT ON: outside of a transaction its lock would be gone
-- before the write, and it throws.
ALTER PROCEDURE dbo.tenure_fence @scope nvarchar(200), @holder nvarchar(255), @epoch bigint
AS
BEGIN
    SET NOCOUNT ON;
    -- Whatever fails in here, a wait that was given up too, must not let the caller go on to its write.
    SET XACT_ABORT ON;
    DECLARE @kind varchar(32), @place nvarchar(200), @stands bigint, @stands_for nvarchar(255), @why nvarchar(1000);
    DECLARE @lock_holder nvarchar(255), @lock_epoch bigint, @lock_until datetime2(7), @look nvarchar(1000);

    IF @scope IS NULL OR @holder IS NULL OR @holder = N'' OR @epoch IS NULL
        SET @why = N'scope, holder and epoch must be given';
    ELSE IF (SELECT transaction_isolation_level FROM sys.dm_exec_sessions WHERE session_id = @@SPID) = 5
        SET @why = N'a transaction of isolation level SNAPSHOT does not see who leads now';
    ELSE IF CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS varchar(32)) = 'READ_ONLY'
        SET @why = N'this database is read-only and takes no writes';

    -- First the lock's own row, without keeping it locked. A lock outside this database has none.
    IF @why IS NULL
    BEGIN
        SELECT @kind = lock_kind, @place = lock_place, @stands = epoch
        FROM dbo.tenure_fences WITH (READCOMMITTED)
        WHERE scope = @scope;
        -- With IMPLICIT_TRANSACTIONS ON that read has begun one.
        IF @@TRANCOUNT = 0
            SET @why = N'the fence must be passed inside a transaction';
        ELSE IF @kind IS NULL
            SET @why = N'nobody has ever led this scope';
    END;
    IF @why IS NULL AND @kind = 'sqlserver-lease'
    BEGIN
        SET @look = CONCAT(
            N'SELECT @holder = holder_id, @epoch = lease_epoch, @until = expires_at FROM dbo.', QUOTENAME(@place),
            N' WITH (READCOMMITTED) WHERE lease_name = CAST(@scope AS varchar(64))');
        EXEC sp_executesql @look,
            N'@scope nvarchar(200), @holder nvarchar(255) OUTPUT, @epoch bigint OUTPUT, @until datetime2(7) OUTPUT',
            @scope = @scope, @holder = @lock_holder OUTPUT, @epoch = @lock_epoch OUTPUT, @until = @lock_until OUTPUT;
        IF @lock_epoch IS NULL OR @lock_epoch <> @epoch
            OR @lock_holder <> @holder COLLATE Latin1_General_100_BIN2
            SET @why = CONCAT(N'the lock names term ', @lock_epoch, N' of ', @lock_holder);
        ELSE IF @lock_until <= SYSUTCDATETIME()
            SET @why = CONCAT(N'its lease expired at ', @lock_until);
    END;

    -- Then the fence, locked until the transaction ends: what safety rests on.
    IF @why IS NULL
    BEGIN
        SET @stands = NULL;
        SELECT @stands = epoch, @stands_for = holder
        FROM dbo.tenure_fences WITH (REPEATABLEREAD, ROWLOCK)
        WHERE scope = @scope;
        IF @stands IS NULL OR @stands <> @epoch OR @stands_for <> @holder COLLATE Latin1_General_100_BIN2
            SET @why = CONCAT(N'the fence stands at term ', @stands, N' of ', @stands_for);
    END;
    IF @why IS NOT NULL
    BEGIN
        DECLARE @refusal nvarchar(2048) =
            CONCAT(N'term ', @epoch, N' of ', @holder, N' in ', @scope, N' is over: ', @why,
                   N' [', COALESCE(@stands, 0), N']');
        -- A message is a format.
        SET @refusal = REPLACE(@refusal, N'%', N'%%');
        THROW 51001, @refusal, 1;
    END;
END
