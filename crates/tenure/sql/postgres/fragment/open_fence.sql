-- The part of a fenced statement that passes the fence: one row when the term may write, else none.
-- $1 text: scope, $2 text: holder, $3 bigint: epoch.
fence AS MATERIALIZED (
    SELECT epoch FROM public.tenure_open_fences
    WHERE scope = $1 AND holder = $2 AND epoch = $3
    FOR SHARE
)
