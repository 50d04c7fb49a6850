-- Gives back intents that this term has taken and for which nobody was called, in a fenced transaction.
-- @P3 bigint: epoch, @P4 nvarchar(max): rows, as JSON.
DECLARE @now datetime2(7) = SYSUTCDATETIME();
UPDATE i
SET reserved_attempt = NULL,
    reserved_at = NULL,
    reserved_epoch = NULL,
    updated_at = @now,
    last_modified_at = @now,
    version = i.version + 1
FROM dbo.submission_intents AS i WITH (FORCESEEK)
JOIN OPENJSON(@P4) WITH (row_number bigint '$') AS n ON n.row_number = i.row_number
WHERE i.status = 'pending' AND i.reserved_epoch = @P3;
