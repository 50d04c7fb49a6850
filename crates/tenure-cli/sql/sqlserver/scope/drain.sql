-- Asks whoever leads a scope to hand over. One row: the term that was asked; none when nobody leads.
-- @P1 nvarchar(200): scope.
EXEC dbo.tenure_drain @scope = @P1;
