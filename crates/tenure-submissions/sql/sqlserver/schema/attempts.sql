-- One row per attempt whose outcome is known; only ever appended.
IF OBJECT_ID(N'dbo.submission_attempts', N'U') IS NULL
CREATE TABLE dbo.submission_attempts (
    intent_id      nvarchar(200) COLLATE Latin1_General_100_BIN2 NOT NULL,
    attempt_number int           NOT NULL CONSTRAINT submission_attempts_number CHECK (attempt_number >= 1),
    started_at     datetime2(7)  NOT NULL,
    finished_at    datetime2(7)  NOT NULL,
    outcome_status nvarchar(4000),
    outcome_reason nvarchar(4000),
    error          nvarchar(4000),
    CONSTRAINT submission_attempts_pkey PRIMARY KEY (intent_id, attempt_number)
);
