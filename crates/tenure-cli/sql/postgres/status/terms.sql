-- The last terms of some scopes, newest first, with times in RFC 3339. For any role with the rights of
-- grant.sql.
-- $1 text[]: the scopes, $2 bigint: how many terms of each.
SELECT asked.scope, term.epoch, term.holder, term.began_at, term.ended_at, term.reason
FROM unnest($1) AS asked (scope)
CROSS JOIN LATERAL (
    SELECT epoch,
           holder,
           to_char(began_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS began_at,
           to_char(ended_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS ended_at,
           reason
    FROM public.tenure_terms
    WHERE tenure_terms.scope = asked.scope
    ORDER BY epoch DESC
    LIMIT $2) AS term
ORDER BY asked.scope, term.epoch DESC
