-- Creates a lease table under any name in the schema dbo, and lets the fence look at it. For whoever migrates.
-- server: which server granted the term; empty where its client did not say.
-- unknown_until: until then a term that another server granted may be acted in, and nobody here knows of it.
ALTER PROCEDURE dbo.tenure_create_lease_table @name nvarchar(128)
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @create nvarchar(max) = CONCAT(N'CREATE TABLE dbo.', QUOTENAME(@name), N' (
        lease_name  varchar(64)  COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY,
        holder_id   varchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
        lease_epoch bigint       NOT NULL,
        acquired_at datetime2(7) NOT NULL,
        renewed_at  datetime2(7) NOT NULL,
        expires_at  datetime2(7) NOT NULL,
        nonce       varchar(64)  NOT NULL DEFAULT ''''
    )');
    DECLARE @servers nvarchar(max) = CONCAT(N'ALTER TABLE dbo.', QUOTENAME(@name), N' ADD
        server        varchar(256) NOT NULL DEFAULT '''',
        unknown_until datetime2(7) NOT NULL DEFAULT ''0001-01-01''
    ');
    IF OBJECT_ID(CONCAT(N'dbo.', QUOTENAME(@name)), N'U') IS NULL
        EXEC sp_executesql @create;
    IF COL_LENGTH(CONCAT(N'dbo.', QUOTENAME(@name)), N'unknown_until') IS NULL
        EXEC sp_executesql @servers;
    INSERT INTO dbo.tenure_lease_tables (name)
    SELECT @name WHERE NOT EXISTS (SELECT 1 FROM dbo.tenure_lease_tables WHERE name = @name);
END
