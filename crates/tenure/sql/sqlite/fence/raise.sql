-- Raises the fence, if it stands below this term. Inside a transaction that has the write lock.
-- ?1 text: scope, ?2 text: holder, ?3 integer: epoch, ?4 text: lock_kind.
INSERT INTO tenure_fences (scope, holder, epoch, lock_kind)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (scope) DO UPDATE
SET holder = excluded.holder, epoch = excluded.epoch, lock_kind = excluded.lock_kind
WHERE epoch < excluded.epoch
