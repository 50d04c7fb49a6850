-- Which lock fences a scope. One row, or none when nobody has ever led it.
-- @P1 nvarchar(200): scope.
SELECT lock_kind, lock_place FROM dbo.tenure_fences WHERE scope = @P1;
