-- Keeps the results of webhooks, in a fenced transaction. A webhook that a leader began and did not live to
-- record has failed: nobody knows whether it arrived, and it is not sent again.
-- @P4 nvarchar(max): the results as JSON: row, and error, which is null for what was delivered.
DECLARE @now datetime2(7) = SYSUTCDATETIME();
UPDATE i
SET webhook_status = CASE WHEN n.error IS NULL THEN 'delivered' ELSE 'failed' END,
    webhook_delivered_at = CASE WHEN n.error IS NULL THEN @now END,
    webhook_error = n.error,
    updated_at = @now,
    last_modified_at = @now,
    version = i.version + 1
FROM dbo.submission_intents AS i WITH (FORCESEEK)
JOIN OPENJSON(@P4) WITH (row_number bigint '$.row_number', error nvarchar(4000) '$.error') AS n
    ON n.row_number = i.row_number
WHERE i.webhook_status = 'pending' AND i.webhook_attempted_at IS NOT NULL;
