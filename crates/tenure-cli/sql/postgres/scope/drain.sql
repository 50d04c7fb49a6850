-- Asks whoever leads a scope to hand over. One row: the term that was asked; none when nobody leads.
-- $1 text: scope.
SELECT epoch, holder FROM public.tenure_drain($1)
