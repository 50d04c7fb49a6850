-- Where the fence of a scope stands. One row, or none when nobody has ever led it.
-- ?1 text: scope.
SELECT epoch, holder, lock_kind FROM tenure_fences WHERE scope = ?1
