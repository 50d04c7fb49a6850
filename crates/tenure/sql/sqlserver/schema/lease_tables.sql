-- The lease tables that the fence may look at. Only whoever migrates can add one: the fence reads them
-- with its owner's rights.
IF OBJECT_ID(N'dbo.tenure_lease_tables', N'U') IS NULL
CREATE TABLE dbo.tenure_lease_tables (
    name nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL CONSTRAINT tenure_lease_tables_pkey PRIMARY KEY
);
