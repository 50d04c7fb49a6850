-- Burns epochs: moves the fence of a scope ahead, so that terms of a lost history can never write again.
-- For an operator after a restore or an unclean failover. One row: where the fence stands now.
ALTER PROCEDURE dbo.tenure_burn_epochs @scope nvarchar(200), @count bigint
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    IF @count IS NULL OR @count < 1
        THROW 51003, N'burn at least one epoch', 1;
    BEGIN TRANSACTION;
    UPDATE dbo.tenure_fences SET epoch = epoch + @count, holder = N'', raised_at = SYSUTCDATETIME()
    WHERE scope = @scope;
    IF @@ROWCOUNT = 0
        THROW 51003, N'nobody has ever led this scope', 1;
    UPDATE dbo.tenure_terms SET ended_at = SYSUTCDATETIME(), reason = 'epochs_burnt'
    WHERE scope = @scope AND ended_at IS NULL;
    COMMIT TRANSACTION;
    SELECT epoch AS stands_at FROM dbo.tenure_fences WHERE scope = @scope;
END
