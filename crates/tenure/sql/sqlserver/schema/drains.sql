-- At most one row per scope: the last term that an operator asked to hand over.
IF OBJECT_ID(N'dbo.tenure_drains', N'U') IS NULL
CREATE TABLE dbo.tenure_drains (
    scope    nvarchar(200) COLLATE Latin1_General_100_BIN2 NOT NULL CONSTRAINT tenure_drains_pkey PRIMARY KEY,
    epoch    bigint        NOT NULL,
    asked_at datetime2(7)  NOT NULL DEFAULT SYSUTCDATETIME()
);
