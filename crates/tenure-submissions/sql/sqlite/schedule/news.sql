-- What was written after a transaction: which intents, whether each was just stored, and whether whoever waits
-- for it has an answer.
SELECT row_number, version = 1 AS is_new, attempt_count > 0 OR status <> 'pending' AS is_answered
FROM submission_intents
WHERE modified_number > :number
