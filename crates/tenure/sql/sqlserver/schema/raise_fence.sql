-- Raises the fence of a scope to a term that has been won, if it stands below it; waits for the fenced
-- transactions that are open. One row: whether the fence names the term now, and where it stands.
-- A repeat of a raise whose answer was lost answers as the first did.
-- 51002: the scope is fenced by another lock, until an operator switches it.
ALTER PROCEDURE dbo.tenure_raise_fence
    @scope nvarchar(200), @holder nvarchar(255), @epoch bigint, @lock_kind varchar(32), @lock_place nvarchar(200),
    @margin_ms bigint
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @stands bigint, @stands_for nvarchar(255), @kind varchar(32), @place nvarchar(200), @why nvarchar(2048);

    -- Epoch 0 of nobody is a fence that was never raised.
    IF @scope IS NULL OR @holder IS NULL OR @holder = N'' OR @epoch IS NULL OR @epoch < 1 OR @lock_kind IS NULL
        OR @lock_place IS NULL OR @margin_ms IS NULL OR @margin_ms < 1
        THROW 51001, N'tenure_raise_fence needs a scope, a holder, a lock, and an epoch and a margin above 0', 1;
    IF @lock_kind = 'sqlserver-lease'
        AND NOT EXISTS (SELECT 1 FROM dbo.tenure_lease_tables WHERE name = @lock_place)
    BEGIN
        SET @why = CONCAT(N'no lease table ', @lock_place, N' is known here: tenure_create_lease_table makes it');
        -- A message is a format.
        SET @why = REPLACE(@why, N'%', N'%%');
        THROW 51002, @why, 1;
    END;

    BEGIN TRANSACTION;
    INSERT INTO dbo.tenure_fences (scope, epoch, holder, lock_kind, lock_place, margin_ms)
    SELECT @scope, 0, N'', '', N'', @margin_ms
    WHERE NOT EXISTS (SELECT 1 FROM dbo.tenure_fences WITH (UPDLOCK, HOLDLOCK) WHERE scope = @scope);
    SELECT @stands = epoch, @stands_for = holder, @kind = lock_kind, @place = lock_place
    FROM dbo.tenure_fences WITH (UPDLOCK, ROWLOCK)
    WHERE scope = @scope;

    IF @kind <> '' AND (@kind <> @lock_kind OR @place <> @lock_place)
    BEGIN
        SET @why = CONCAT(
            N'scope ', @scope, N' is fenced by the lock ', @kind, N' ', @place, N', not by ', @lock_kind, N' ',
            @lock_place, N' (Stop every node, then run: tenure scope switch-lock --scope …)');
        SET @why = REPLACE(@why, N'%', N'%%');
        THROW 51002, @why, 1;
    END;
    IF @stands < @epoch
    BEGIN
        UPDATE dbo.tenure_fences
        SET epoch = @epoch, holder = @holder, lock_kind = @lock_kind, lock_place = @lock_place,
            margin_ms = @margin_ms, raised_at = SYSUTCDATETIME()
        WHERE scope = @scope AND epoch < @epoch;
        EXEC dbo.tenure_begin_term @scope = @scope, @holder = @holder, @epoch = @epoch, @lock_kind = @lock_kind;
    END;
    SELECT @stands = epoch, @stands_for = holder FROM dbo.tenure_fences WHERE scope = @scope;
    COMMIT TRANSACTION;

    SELECT CAST(CASE WHEN @stands = @epoch AND @stands_for = @holder COLLATE Latin1_General_100_BIN2
                     THEN 1 ELSE 0 END AS bit) AS raised,
           @stands AS fence_epoch;
END
