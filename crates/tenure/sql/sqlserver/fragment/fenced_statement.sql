-- A statement that only a term can commit, in a transaction of its own and one round trip.
-- Whatever it does, the fence comes first: it throws 51001 unless the term may write, and all of it is rolled back.
-- @P1 nvarchar(200): scope, @P2 nvarchar(255): holder, @P3 bigint: epoch, the statement's own parameters from @P4 on.
BEGIN TRANSACTION;
EXEC dbo.tenure_fence @scope = @P1, @holder = @P2, @epoch = @P3;
{write}
-- Unless the statement has done so, because what it returns is long.
IF @@TRANCOUNT > 0
    COMMIT TRANSACTION;
