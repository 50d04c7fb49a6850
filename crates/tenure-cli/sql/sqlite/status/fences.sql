-- The fences: a row per scope that was ever led.
-- ?1 text: a scope, or null for all.
SELECT scope, epoch, holder, lock_kind FROM tenure_fences WHERE ?1 IS NULL OR scope = ?1
