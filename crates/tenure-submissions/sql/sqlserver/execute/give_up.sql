-- Ends intents that must not be tried again, in a fenced transaction: those whose deadline has passed by the
-- database's clock, and one-shots that a leader of another term began, where such are not repeated. The attempt
-- that was begun is appended, its outcome unknown. One row for each.
-- @P3 bigint: epoch, @P4 nvarchar(max): rows, as JSON, @P5 bit: whether one-shots are repeated.
DECLARE @now datetime2(7);
DECLARE @picked TABLE (row_number bigint NOT NULL PRIMARY KEY);
DECLARE @ended TABLE (row_number bigint NOT NULL PRIMARY KEY);
INSERT INTO @picked (row_number)
SELECT i.row_number
FROM OPENJSON(@P4) WITH (row_number bigint '$') AS n
JOIN dbo.submission_intents AS i WITH (UPDLOCK, ROWLOCK, FORCESEEK, INDEX (submission_intents_row_number))
    ON i.row_number = n.row_number;
-- After the locks.
SET @now = SYSUTCDATETIME();
INSERT INTO @ended (row_number)
SELECT i.row_number
FROM @picked AS p
JOIN dbo.submission_intents AS i WITH (FORCESEEK) ON i.row_number = p.row_number
WHERE i.status = 'pending'
  AND (DATEDIFF_BIG(MICROSECOND, i.created_at, @now) / 1000000 >= i.max_acceptance_seconds
       OR (i.policy = 'one_shot' AND i.reserved_epoch <> @P3 AND @P5 = 0));
INSERT INTO dbo.submission_attempts (intent_id, attempt_number, started_at, finished_at, error, key_number)
SELECT i.intent_id, i.reserved_attempt, i.reserved_at, @now, N'outcome unknown', i.held_key
FROM @ended AS e
JOIN dbo.submission_intents AS i WITH (FORCESEEK) ON i.row_number = e.row_number
WHERE i.reserved_attempt IS NOT NULL;
UPDATE i
SET status = 'exhausted',
    exhausted_reason = CASE WHEN i.policy = 'one_shot' THEN 'one_shot' ELSE 'deadline_exceeded' END,
    attempt_count = COALESCE(i.reserved_attempt, i.attempt_count),
    reserved_attempt = NULL,
    reserved_at = NULL,
    reserved_epoch = NULL,
    webhook_status = CASE WHEN i.webhook_url IS NOT NULL THEN 'pending' END,
    next_attempt_at = NULL,
    completed_at = @now,
    updated_at = @now,
    last_modified_at = @now,
    version = i.version + 1
FROM dbo.submission_intents AS i WITH (FORCESEEK)
JOIN @ended AS e ON e.row_number = i.row_number;
SELECT i.row_number, i.version, CAST(CASE WHEN i.webhook_url IS NULL THEN 0 ELSE 1 END AS bit) AS has_webhook,
       i.exhausted_reason,
       DATEDIFF_BIG(MICROSECOND, '1970-01-01', i.created_at) AS created_at,
       DATEDIFF_BIG(MICROSECOND, '1970-01-01', i.completed_at) AS completed_at
FROM @ended AS e
JOIN dbo.submission_intents AS i WITH (FORCESEEK) ON i.row_number = e.row_number;
