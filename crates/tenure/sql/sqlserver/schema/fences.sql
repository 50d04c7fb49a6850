-- One row per scope: the highest term that may write. Only a takeover and an operator change it.
IF OBJECT_ID(N'dbo.tenure_fences', N'U') IS NULL
CREATE TABLE dbo.tenure_fences (
    scope      nvarchar(200) COLLATE Latin1_General_100_BIN2 NOT NULL CONSTRAINT tenure_fences_pkey PRIMARY KEY,
    epoch      bigint        NOT NULL,
    holder     nvarchar(255) COLLATE Latin1_General_100_BIN2 NOT NULL,
    lock_kind  varchar(32)   NOT NULL,
    lock_place nvarchar(200) COLLATE Latin1_General_100_BIN2 NOT NULL,
    margin_ms  bigint        NOT NULL,
    raised_at  datetime2(7)  NOT NULL DEFAULT SYSUTCDATETIME()
);
