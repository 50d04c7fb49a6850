-- One row per intent. The contract is a copy of what the registry said when it was submitted.
-- modified is what a refresh goes by; row_number is what the leader schedules by: shorter than an id, and never used
-- again; reserved_attempt is the attempt that is under way, or was when its leader died.
IF OBJECT_ID(N'dbo.submission_intents', N'U') IS NULL
BEGIN
    CREATE TABLE dbo.submission_intents (
        intent_id              nvarchar(200)  COLLATE Latin1_General_100_BIN2 NOT NULL
                               CONSTRAINT submission_intents_pkey PRIMARY KEY NONCLUSTERED,
        row_number             bigint         IDENTITY(1, 1) NOT NULL,
        submission_target      nvarchar(400)  COLLATE Latin1_General_100_BIN2 NOT NULL,
        payload                varbinary(max) NOT NULL,
        payload_hash           binary(32)     NOT NULL,
        gateway_type           varchar(32)    NOT NULL,
        gateway_url            nvarchar(max)  NOT NULL,
        policy                 varchar(32)    NOT NULL,
        max_acceptance_seconds bigint,
        max_attempts           int,
        terminal_outcomes      nvarchar(max)  NOT NULL,
        webhook_url            nvarchar(max),
        webhook_headers        nvarchar(max),
        webhook_headers_env    nvarchar(max),
        webhook_secret_env     nvarchar(max),
        webhook_status         varchar(16),
        webhook_attempted_at   datetime2(7),
        webhook_delivered_at   datetime2(7),
        webhook_error          nvarchar(4000),
        status                 varchar(16)    NOT NULL DEFAULT 'pending',
        final_outcome_status   nvarchar(4000),
        final_outcome_reason   nvarchar(4000),
        exhausted_reason       varchar(32),
        attempt_count          int            NOT NULL DEFAULT 0,
        reserved_attempt       int,
        reserved_at            datetime2(7),
        reserved_epoch         bigint,
        created_at             datetime2(7)   NOT NULL,
        updated_at             datetime2(7)   NOT NULL,
        last_modified_at       datetime2(7)   NOT NULL,
        next_attempt_at        datetime2(7),
        completed_at           datetime2(7),
        version                bigint         NOT NULL DEFAULT 1,
        modified               rowversion     NOT NULL,
        CONSTRAINT submission_intents_status CHECK (status IN ('pending', 'accepted', 'rejected', 'exhausted')),
        CONSTRAINT submission_intents_webhook_status CHECK (webhook_status IN ('pending', 'delivered', 'failed')),
        CONSTRAINT submission_intents_due CHECK (
            (status = 'pending' AND next_attempt_at IS NOT NULL)
            OR (status <> 'pending' AND next_attempt_at IS NULL))
    );
    CREATE UNIQUE CLUSTERED INDEX submission_intents_row_number ON dbo.submission_intents (row_number);
    -- Each holds all that its reader wants: one that went on to the row itself could deadlock with a writer.
    CREATE INDEX submission_intents_modified ON dbo.submission_intents (modified)
        INCLUDE (version, intent_id, next_attempt_at, last_modified_at);
    CREATE INDEX submission_intents_pending ON dbo.submission_intents (row_number)
        INCLUDE (version, next_attempt_at, modified) WHERE status = 'pending';
    CREATE INDEX submission_intents_webhook ON dbo.submission_intents (row_number)
        INCLUDE (webhook_attempted_at) WHERE webhook_status = 'pending';
END;
