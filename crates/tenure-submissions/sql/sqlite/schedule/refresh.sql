-- A page of what was written after a transaction, in order.
SELECT row_number, version, next_attempt_at, last_modified_at, intent_id
FROM submission_intents
WHERE modified_number > :number
  AND (last_modified_at > :last_modified_at
       OR (last_modified_at = :last_modified_at AND intent_id > :intent_id))
ORDER BY last_modified_at, intent_id
LIMIT :most
