-- Takes the attempts of deleted intents along: an id that is submitted again begins with attempt 1 again.
IF OBJECT_ID(N'dbo.submission_forget_attempts', N'TR') IS NULL
    EXEC (N'CREATE TRIGGER dbo.submission_forget_attempts ON dbo.submission_intents AFTER DELETE AS
            DELETE FROM dbo.submission_attempts WHERE intent_id IN (SELECT intent_id FROM deleted)');
