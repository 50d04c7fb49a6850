-- Stores a batch of intents; those whose id is taken are left out. One row for each that was stored.
-- An id that is taken at the same moment fails the batch with 2627, and the same batch again leaves it out.
-- @P1 nvarchar(max): the intents as JSON, sorted by their ids: id, target, which contract, and where their bytes begin
-- and how many they are; @P2 varbinary(max): the bytes, for each its SHA-256 and its payload;
-- @P3 nvarchar(max): the contracts as JSON.
DECLARE @now datetime2(7) = SYSUTCDATETIME();
DECLARE @contracts TABLE (
    number                 int           NOT NULL PRIMARY KEY,
    gateway_type           varchar(32)   NOT NULL,
    gateway_url            nvarchar(max) NOT NULL,
    policy                 varchar(32)   NOT NULL,
    max_acceptance_seconds bigint,
    max_attempts           int,
    terminal_outcomes      nvarchar(max) NOT NULL,
    webhook_url            nvarchar(max),
    webhook_headers        nvarchar(max),
    webhook_headers_env    nvarchar(max),
    webhook_secret_env     nvarchar(max)
);
DECLARE @stored TABLE (intent_id nvarchar(200), row_number bigint, created_at datetime2(7));
INSERT INTO @contracts
SELECT number, gateway_type, gateway_url, policy, max_acceptance_seconds, max_attempts, terminal_outcomes, webhook_url,
       webhook_headers, webhook_headers_env, webhook_secret_env
FROM OPENJSON(@P3) WITH (
    number                 int           '$.number',
    gateway_type           varchar(32)   '$.gateway_type',
    gateway_url            nvarchar(max) '$.gateway_url',
    policy                 varchar(32)   '$.policy',
    max_acceptance_seconds bigint        '$.max_acceptance_seconds',
    max_attempts           int           '$.max_attempts',
    terminal_outcomes      nvarchar(max) '$.terminal_outcomes' AS JSON,
    webhook_url            nvarchar(max) '$.webhook_url',
    webhook_headers        nvarchar(max) '$.webhook_headers' AS JSON,
    webhook_headers_env    nvarchar(max) '$.webhook_headers_env' AS JSON,
    webhook_secret_env     nvarchar(max) '$.webhook_secret_env');
INSERT INTO dbo.submission_intents (
    intent_id, submission_target, payload, payload_hash, gateway_type, gateway_url, policy,
    max_acceptance_seconds, max_attempts, terminal_outcomes, webhook_url, webhook_headers,
    webhook_headers_env, webhook_secret_env, created_at, updated_at, last_modified_at, next_attempt_at
)
OUTPUT inserted.intent_id, inserted.row_number, inserted.created_at INTO @stored (intent_id, row_number, created_at)
SELECT s.id, s.target, SUBSTRING(@P2, s.begins + 33, s.length), SUBSTRING(@P2, s.begins + 1, 32),
       c.gateway_type, c.gateway_url, c.policy, c.max_acceptance_seconds, c.max_attempts, c.terminal_outcomes,
       c.webhook_url, c.webhook_headers, c.webhook_headers_env, c.webhook_secret_env, @now, @now, @now, @now
FROM OPENJSON(@P1) WITH (
    id       nvarchar(200) '$.id',
    target   nvarchar(400) '$.target',
    contract int           '$.contract',
    begins   bigint        '$.begins',
    length   bigint        '$.length') AS s
JOIN @contracts AS c ON c.number = s.contract
WHERE NOT EXISTS (
    SELECT 1 FROM dbo.submission_intents AS i WITH (FORCESEEK)
    WHERE i.intent_id = s.id COLLATE Latin1_General_100_BIN2)
ORDER BY s.begins;
SELECT intent_id, row_number, DATEDIFF_BIG(MICROSECOND, '1970-01-01', created_at) AS created_at FROM @stored;
