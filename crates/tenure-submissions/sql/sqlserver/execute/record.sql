-- Records the outcomes of attempts, in a fenced transaction: the intent goes on and the attempt is appended, or
-- neither. One row for each; one that has moved on is left out.
-- @P4 nvarchar(max): the outcomes as JSON: row, attempt number, when it began and ended, what came of it, and what the
-- intent is from now on.
DECLARE @now datetime2(7);
DECLARE @input TABLE (
    row_number       bigint       NOT NULL PRIMARY KEY,
    attempt_number   int          NOT NULL,
    started_at       datetime2(7) NOT NULL,
    finished_at      datetime2(7) NOT NULL,
    outcome_status   nvarchar(4000),
    outcome_reason   nvarchar(4000),
    error            nvarchar(4000),
    status           varchar(16)  NOT NULL,
    exhausted_reason varchar(32),
    next_attempt_at  datetime2(7),
    key_number       int,
    held_key         int
);
DECLARE @moved TABLE (row_number bigint NOT NULL PRIMARY KEY);
INSERT INTO @input (row_number, attempt_number, started_at, finished_at, outcome_status, outcome_reason, error,
                    status, exhausted_reason, next_attempt_at, key_number, held_key)
SELECT row_number, attempt_number, started_at, finished_at, outcome_status, outcome_reason, error, status,
       exhausted_reason, next_attempt_at, key_number, held_key
FROM OPENJSON(@P4) WITH (
    row_number       bigint         '$.row_number',
    attempt_number   int            '$.attempt_number',
    started_at       datetime2(7)   '$.started_at',
    finished_at      datetime2(7)   '$.finished_at',
    outcome_status   nvarchar(4000) '$.outcome_status',
    outcome_reason   nvarchar(4000) '$.outcome_reason',
    error            nvarchar(4000) '$.error',
    status           varchar(16)    '$.status',
    exhausted_reason varchar(32)    '$.exhausted_reason',
    next_attempt_at  datetime2(7)   '$.next_attempt_at',
    key_number       int            '$.key_number',
    held_key         int            '$.held_key');
INSERT INTO @moved (row_number)
SELECT i.row_number
FROM @input AS n
JOIN dbo.submission_intents AS i WITH (UPDLOCK, ROWLOCK, FORCESEEK, INDEX (submission_intents_row_number))
    ON i.row_number = n.row_number
WHERE i.status = 'pending'
  AND i.reserved_attempt = n.attempt_number
  AND i.attempt_count = n.attempt_number - 1;
SET @now = SYSUTCDATETIME();
UPDATE i
SET status = n.status,
    attempt_count = n.attempt_number,
    reserved_attempt = NULL,
    reserved_at = NULL,
    reserved_epoch = NULL,
    held_key = n.held_key,
    final_outcome_status = CASE WHEN n.status <> 'pending' THEN n.outcome_status END,
    final_outcome_reason = CASE WHEN n.status <> 'pending' THEN n.outcome_reason END,
    exhausted_reason = n.exhausted_reason,
    webhook_status = CASE WHEN n.status <> 'pending' AND i.webhook_url IS NOT NULL THEN 'pending' END,
    next_attempt_at = n.next_attempt_at,
    completed_at = CASE WHEN n.status <> 'pending' THEN @now END,
    updated_at = @now,
    last_modified_at = @now,
    version = i.version + 1
FROM dbo.submission_intents AS i WITH (FORCESEEK)
JOIN @moved AS m ON m.row_number = i.row_number
JOIN @input AS n ON n.row_number = i.row_number;
INSERT INTO dbo.submission_attempts (
    intent_id, attempt_number, started_at, finished_at, outcome_status, outcome_reason, error, key_number
)
-- No attempt has finished after it was recorded.
SELECT i.intent_id, n.attempt_number, n.started_at, CASE WHEN n.finished_at > @now THEN @now ELSE n.finished_at END,
       n.outcome_status, n.outcome_reason, n.error, n.key_number
FROM @moved AS m
JOIN @input AS n ON n.row_number = m.row_number
JOIN dbo.submission_intents AS i WITH (FORCESEEK) ON i.row_number = m.row_number;
SELECT i.row_number, i.version, DATEDIFF_BIG(MICROSECOND, '1970-01-01', i.next_attempt_at) AS next_attempt_at,
       CAST(CASE WHEN i.webhook_status IS NULL THEN 0 ELSE 1 END AS bit) AS has_webhook
FROM @moved AS m
JOIN dbo.submission_intents AS i WITH (FORCESEEK) ON i.row_number = m.row_number;
