-- Whether anything was ever migrated here: one row, one bit.
SELECT CAST(CASE WHEN OBJECT_ID(N'dbo.tenure_migrations', N'U') IS NULL THEN 0 ELSE 1 END AS bit) AS [exists];
