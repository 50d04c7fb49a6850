-- Terminal intents whose webhook has no result yet: which, and whether somebody began to send it.
SELECT row_number, webhook_attempted_at IS NOT NULL AS was_attempted
FROM submission_intents
WHERE webhook_status = 'pending' AND row_number > :above
ORDER BY row_number
LIMIT :most
