-- A write and its fence in one statement. {write} is an INSERT, UPDATE or DELETE without RETURNING.
-- Whatever the write does, the answer needs the fence: without it the statement raises TN001, and all of it
-- is rolled back. It does not matter which part runs first: the fence row is locked before the commit, and
-- stays locked until then.
-- $1 text: scope, $2 text: holder, $3 bigint: epoch, the write's own parameters from $4 on.
WITH fence AS MATERIALIZED (
    SELECT epoch FROM public.tenure_open_fences
    WHERE scope = $1 AND holder = $2 AND epoch = $3
    FOR SHARE
), written AS (
    {write}
    RETURNING 1
)
SELECT CASE WHEN EXISTS (SELECT FROM fence) THEN '' ELSE public.tenure_fence($1, $2, $3)::text END AS passed,
       (SELECT count(*) FROM written) AS rows
