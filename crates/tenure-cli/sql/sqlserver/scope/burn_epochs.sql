-- Moves the fence of a scope ahead. One row: where it stands. For the schema's owner.
-- @P1 nvarchar(200): scope, @P2 bigint: how many epochs.
EXEC dbo.tenure_burn_epochs @scope = @P1, @count = @P2;
