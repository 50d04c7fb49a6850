-- The history of terms: who led, from when to when, and why it ended.
IF OBJECT_ID(N'dbo.tenure_terms', N'U') IS NULL
CREATE TABLE dbo.tenure_terms (
    scope     nvarchar(200) COLLATE Latin1_General_100_BIN2 NOT NULL,
    epoch     bigint        NOT NULL,
    holder    nvarchar(255) COLLATE Latin1_General_100_BIN2 NOT NULL,
    lock_kind varchar(32)   NOT NULL,
    began_at  datetime2(7)  NOT NULL DEFAULT SYSUTCDATETIME(),
    ended_at  datetime2(7),
    reason    varchar(64),
    CONSTRAINT tenure_terms_pkey PRIMARY KEY (scope, epoch)
);
