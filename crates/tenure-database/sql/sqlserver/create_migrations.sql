-- What has been applied, by component.
IF OBJECT_ID(N'dbo.tenure_migrations', N'U') IS NULL
CREATE TABLE dbo.tenure_migrations (
    component  varchar(64)   NOT NULL,
    version    int           NOT NULL,
    name       nvarchar(200) NOT NULL,
    checksum   char(16)      NOT NULL,
    breaking   bit           NOT NULL,
    applied_at datetime2(7)  NOT NULL DEFAULT SYSUTCDATETIME(),
    CONSTRAINT tenure_migrations_pkey PRIMARY KEY (component, version)
);
