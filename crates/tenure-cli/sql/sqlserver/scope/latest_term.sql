-- The latest term of a scope. No row when nobody has ever led it.
-- @P1 nvarchar(200): scope.
SELECT TOP (1) epoch, holder, CAST(CASE WHEN ended_at IS NULL THEN 0 ELSE 1 END AS bit) AS has_ended
FROM dbo.tenure_terms
WHERE scope = @P1
ORDER BY epoch DESC;
