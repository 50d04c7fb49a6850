-- Writes the beginning of a term into the history.
-- ?1 text: scope, ?2 text: holder, ?3 integer: epoch, ?4 text: lock_kind.
INSERT INTO tenure_terms (scope, holder, epoch, lock_kind)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT DO NOTHING
