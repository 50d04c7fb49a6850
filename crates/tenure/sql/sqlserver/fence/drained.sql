-- The last term of a scope that an operator asked to hand over; no row for none.
-- @P1 nvarchar(200): scope.
SELECT epoch FROM dbo.tenure_drains WHERE scope = @P1;
