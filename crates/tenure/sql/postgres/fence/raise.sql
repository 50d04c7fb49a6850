-- Raises the fence to a term that was won. One row.
-- $1 text: scope, $2 text: holder, $3 bigint: epoch, $4 text: lock_kind, $5 text: lock_place,
-- $6 bigint: margin in milliseconds.
SELECT raised, fence_epoch FROM public.tenure_raise_fence($1, $2, $3, $4, $5, $6)
