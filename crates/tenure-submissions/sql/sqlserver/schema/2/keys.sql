-- A call whose outcome is unknown may have had its effect: the attempts that follow carry its key, until the gateway
-- says under it that nothing was done. held_key is the number of the attempt whose key is sent until its outcome is
-- known; key_number is the number in the key that was sent, where it is not the attempt's own.
IF COL_LENGTH(N'dbo.submission_intents', N'held_key') IS NULL
ALTER TABLE dbo.submission_intents ADD held_key int NULL;
IF COL_LENGTH(N'dbo.submission_attempts', N'key_number') IS NULL
ALTER TABLE dbo.submission_attempts ADD key_number int NULL;
