-- Takes intents for one attempt each, in a fenced transaction. One row for each that is still pending, due and
-- in time by the database's clock, with all that the attempt needs.
-- @P3 bigint: epoch, @P4 nvarchar(max): rows, as JSON, @P5 bit: whether one-shots that a leader of another term began
-- are repeated.
DECLARE @now datetime2(7);
DECLARE @picked TABLE (row_number bigint NOT NULL PRIMARY KEY, was_reserved bit NOT NULL);
DECLARE @taken TABLE (row_number bigint NOT NULL PRIMARY KEY, version bigint NOT NULL, was_reserved bit NOT NULL);
INSERT INTO @picked (row_number, was_reserved)
SELECT i.row_number, CASE WHEN i.reserved_attempt IS NULL THEN 0 ELSE 1 END
FROM OPENJSON(@P4) WITH (row_number bigint '$') AS n
JOIN dbo.submission_intents AS i WITH (UPDLOCK, ROWLOCK, FORCESEEK, INDEX (submission_intents_row_number))
    ON i.row_number = n.row_number;
-- After the locks.
SET @now = SYSUTCDATETIME();
INSERT INTO @taken (row_number, version, was_reserved)
SELECT p.row_number, i.version + 1, p.was_reserved
FROM @picked AS p
JOIN dbo.submission_intents AS i WITH (FORCESEEK) ON i.row_number = p.row_number
WHERE i.status = 'pending'
  AND i.next_attempt_at <= @now
  AND (i.max_acceptance_seconds IS NULL
       OR DATEDIFF_BIG(MICROSECOND, i.created_at, @now) / 1000000 < i.max_acceptance_seconds)
  AND (@P5 = 1 OR i.policy <> 'one_shot' OR i.reserved_epoch IS NULL OR i.reserved_epoch = @P3);
UPDATE i
SET reserved_attempt = i.attempt_count + 1,
    reserved_at = @now,
    reserved_epoch = @P3,
    updated_at = @now,
    last_modified_at = @now,
    version = i.version + 1
FROM dbo.submission_intents AS i WITH (FORCESEEK)
JOIN @taken AS t ON t.row_number = i.row_number;
-- Payloads may take their time on the way, and nobody's takeover waits for that.
COMMIT TRANSACTION;
SELECT i.row_number, i.version, i.intent_id, i.submission_target, i.payload, i.gateway_type,
       i.gateway_url, i.policy, i.max_acceptance_seconds, i.max_attempts, i.terminal_outcomes,
       i.webhook_url, i.reserved_attempt, i.held_key,
       DATEDIFF_BIG(MICROSECOND, '1970-01-01', i.created_at) AS created_at,
       DATEDIFF_BIG(MICROSECOND, '1970-01-01', i.next_attempt_at) AS next_attempt_at,
       DATEDIFF_BIG(MICROSECOND, '1970-01-01', @now) AS started_at, t.was_reserved
FROM @taken AS t
JOIN dbo.submission_intents AS i WITH (FORCESEEK) ON i.row_number = t.row_number AND i.version = t.version;
