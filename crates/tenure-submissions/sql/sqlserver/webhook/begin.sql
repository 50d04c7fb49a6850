-- Takes webhooks for their one attempt, in a fenced transaction, with all that is to be sent. One row for each
-- that nobody began before.
-- @P4 nvarchar(max): rows, as JSON.
DECLARE @now datetime2(7);
DECLARE @taken TABLE (row_number bigint NOT NULL PRIMARY KEY, version bigint NOT NULL);
INSERT INTO @taken (row_number, version)
SELECT i.row_number, i.version + 1
FROM OPENJSON(@P4) WITH (row_number bigint '$') AS n
JOIN dbo.submission_intents AS i WITH (UPDLOCK, ROWLOCK, FORCESEEK, INDEX (submission_intents_row_number))
    ON i.row_number = n.row_number
WHERE i.webhook_status = 'pending' AND i.webhook_attempted_at IS NULL;
SET @now = SYSUTCDATETIME();
UPDATE i
SET webhook_attempted_at = @now,
    updated_at = @now,
    last_modified_at = @now,
    version = i.version + 1
FROM dbo.submission_intents AS i WITH (FORCESEEK)
JOIN @taken AS t ON t.row_number = i.row_number;
-- What is sent may take its time on the way, and nobody's takeover waits for that.
COMMIT TRANSACTION;
SELECT i.row_number, i.intent_id, i.submission_target, i.payload_hash,
       DATEDIFF_BIG(MICROSECOND, '1970-01-01', i.created_at) AS created_at, i.status,
       DATEDIFF_BIG(MICROSECOND, '1970-01-01', i.completed_at) AS completed_at,
       i.final_outcome_reason, i.exhausted_reason, i.attempt_count, i.webhook_url, i.webhook_headers,
       i.webhook_headers_env, i.webhook_secret_env,
       DATEDIFF_BIG(MICROSECOND, '1970-01-01', i.webhook_attempted_at) AS webhook_attempted_at
FROM @taken AS t
JOIN dbo.submission_intents AS i WITH (FORCESEEK) ON i.row_number = t.row_number AND i.version = t.version;
