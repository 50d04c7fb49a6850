-- Ends whatever was still open before a term.
-- ?1 text: scope, ?2 integer: epoch, ?3 text: reason.
UPDATE tenure_terms
SET ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), reason = ?3
WHERE scope = ?1 AND epoch < ?2 AND ended_at IS NULL
