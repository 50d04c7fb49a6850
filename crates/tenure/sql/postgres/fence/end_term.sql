-- Writes the end of a term into the history.
-- $1 text: scope, $2 text: holder, $3 bigint: epoch, $4 text: reason.
SELECT public.tenure_end_term($1, $2, $3, $4)
