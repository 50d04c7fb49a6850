-- The lock of a scope. One row, or none when nobody has ever led it.
-- $1 text: scope.
SELECT lock_kind, lock_place FROM public.tenure_fences WHERE scope = $1
