-- Lets the next winner of a scope bring another kind of lock.
-- ?1 text: scope.
UPDATE tenure_fences SET lock_kind = '' WHERE scope = ?1
