-- Gives back webhooks that this term has taken and not sent, in a fenced transaction.
-- @P4 nvarchar(max): rows, as JSON.
DECLARE @now datetime2(7) = SYSUTCDATETIME();
UPDATE i
SET webhook_attempted_at = NULL,
    updated_at = @now,
    last_modified_at = @now,
    version = i.version + 1
FROM dbo.submission_intents AS i WITH (FORCESEEK)
JOIN OPENJSON(@P4) WITH (row_number bigint '$') AS n ON n.row_number = i.row_number
WHERE i.webhook_status = 'pending';
