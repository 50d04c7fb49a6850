-- The lease tables that exist, by the name that fences know them by. For any role with the rights of grant.sql.
SELECT name, QUOTENAME(name) AS quoted
FROM dbo.tenure_lease_tables
ORDER BY name;
