-- Waits until no other process migrates this database; freed with the transaction.
-- @P1 int: how long at most, in milliseconds.
DECLARE @got int;
EXEC @got = sp_getapplock @Resource = N'tenure_migrations', @LockMode = N'Exclusive',
    @LockOwner = N'Transaction', @LockTimeout = @P1;
IF @got < 0
    THROW 51003, N'another process has been migrating this database for too long', 1;
