-- The last terms of a scope, newest first, in microseconds since 1970. For any role with the rights of grant.sql.
-- @P1 nvarchar(200): the scope, @P2 bigint: how many terms.
SELECT TOP (@P2) epoch, holder,
       DATEDIFF_BIG(MICROSECOND, '1970-01-01', began_at) AS began_at,
       DATEDIFF_BIG(MICROSECOND, '1970-01-01', ended_at) AS ended_at,
       reason
FROM dbo.tenure_terms
WHERE scope = @P1
ORDER BY epoch DESC;
