-- The last terms of a scope, newest first. Times are stored in RFC 3339.
-- ?1 text: scope, ?2 integer: how many.
SELECT epoch, holder, began_at, ended_at, reason
FROM tenure_terms
WHERE scope = ?1
ORDER BY epoch DESC
LIMIT ?2
