-- Terminal intents whose webhook has no result yet: which, and whether somebody began to send it.
-- $1 bigint: above which row, $2 bigint: how many.
SELECT row_number, webhook_attempted_at IS NOT NULL AS was_attempted
FROM public.submission_intents
WHERE webhook_status = 'pending' AND row_number > $1
ORDER BY row_number
LIMIT $2
