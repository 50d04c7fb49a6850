-- Lets the next winner of a scope bring another lock. For the schema's owner.
-- @P1 nvarchar(200): scope.
EXEC dbo.tenure_switch_lock @scope = @P1;
