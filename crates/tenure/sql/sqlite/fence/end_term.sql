-- Writes the end of a term into the history. Once ended, a term stays as it is.
-- ?1 text: scope, ?2 text: holder, ?3 integer: epoch, ?4 text: reason.
UPDATE tenure_terms
SET ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), reason = ?4
WHERE scope = ?1 AND holder = ?2 AND epoch = ?3 AND ended_at IS NULL
