-- The latest term of a scope. No row when nobody has ever led it.
-- $1 text: scope.
SELECT epoch, holder, ended_at IS NOT NULL AS has_ended
FROM public.tenure_terms
WHERE scope = $1
ORDER BY epoch DESC
LIMIT 1
