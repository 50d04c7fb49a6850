-- The fences: a row per scope that was ever led. For any role with the rights of grant.sql.
-- $1 text: a scope, or null for all.
SELECT scope, epoch, holder, lock_kind, lock_place
FROM public.tenure_fences
WHERE $1 IS NULL OR scope = $1
