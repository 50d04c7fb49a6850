-- Passes the fence, or raises TN001. First statement of a fenced transaction.
-- $1 text: scope, $2 text: holder, $3 bigint: epoch.
SELECT public.tenure_fence($1, $2, $3)
