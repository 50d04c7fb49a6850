-- Terminal intents whose webhook has no result yet: which, and whether somebody began to send it.
-- @P1 bigint: above which row, @P2 bigint: how many.
SELECT TOP (@P2) row_number, CAST(CASE WHEN webhook_attempted_at IS NULL THEN 0 ELSE 1 END AS bit) AS was_attempted
FROM dbo.submission_intents
WHERE webhook_status = 'pending' AND row_number > @P1
ORDER BY row_number;
