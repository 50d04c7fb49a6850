-- A write and its fence in one statement; the write is an INSERT, UPDATE or DELETE without RETURNING.
-- Whatever the write does, the answer needs the fence: without it the statement raises TN001, and all of it
-- is rolled back. The fence comes first, also where the write finds no rows: its sub-select does not depend
-- on them. The scope's lock is looked at without locking it; where it does not speak for the term, the
-- function decides, and says why.
-- $1 text: scope, $2 text: holder, $3 bigint: epoch, the write's own parameters from $4 on.
WITH written AS (
    {write}
    RETURNING 1
)
SELECT FROM written
WHERE (SELECT coalesce(
    (SELECT true FROM public.tenure_fence_slots AS fence
     WHERE fence.scope = $1
       AND fence.slot = public.tenure_fence_slot()
       AND fence.holder = $2
       AND fence.epoch = $3
       AND {lock_speaks}
     FOR SHARE OF fence),
    public.tenure_fence($1, $2, $3)::text = ''))
