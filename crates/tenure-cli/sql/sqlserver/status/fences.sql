-- The fences: a row per scope that was ever led. For any role with the rights of grant.sql.
-- @P1 nvarchar(200): a scope, or the empty string for all.
SELECT scope, epoch, holder, lock_kind, lock_place
FROM dbo.tenure_fences
WHERE @P1 = N'' OR scope = @P1;
