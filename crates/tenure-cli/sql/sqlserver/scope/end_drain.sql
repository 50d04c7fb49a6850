-- Lets whoever was drained contend again; whether anybody had been asked.
-- @P1 nvarchar(200): scope.
EXEC dbo.tenure_end_drain @scope = @P1;
