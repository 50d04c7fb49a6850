-- Writes the end of a term into the history.
-- @P1 nvarchar(200): scope, @P2 nvarchar(255): holder, @P3 bigint: epoch, @P4 varchar(64): reason.
EXEC dbo.tenure_end_term @scope = @P1, @holder = @P2, @epoch = @P3, @reason = @P4;
