-- What has been applied of a component, in order.
-- @P1 varchar(64): the component.
SELECT version, name, checksum, breaking
FROM dbo.tenure_migrations
WHERE component = CAST(@P1 AS varchar(64))
ORDER BY version;
