-- The lease tables that the fence may look at. Only whoever migrates can add one. The fence reads them with its caller's
-- rights: whoever passes it needs SELECT on the table, and whoever elects INSERT and UPDATE too.
IF OBJECT_ID(N'dbo.tenure_lease_tables', N'U') IS NULL
CREATE TABLE dbo.tenure_lease_tables (
    name nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL CONSTRAINT tenure_lease_tables_pkey PRIMARY KEY
);
