-- The last term of a scope that an operator asked to hand over; no row for none.
-- $1 text: scope.
SELECT epoch FROM public.tenure_drains WHERE scope = $1
