-- $1 bigint: scope_key, $2 text: scope.
SELECT public.tenure_create_advisory_scope($1, $2)
