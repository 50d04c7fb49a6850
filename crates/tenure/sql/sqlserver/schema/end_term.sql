-- Writes the end of a term into the history, for the node that led it. Once ended, a term stays as it is.
ALTER PROCEDURE dbo.tenure_end_term
    @scope nvarchar(200), @holder nvarchar(255), @epoch bigint, @reason varchar(64)
AS
BEGIN
    SET NOCOUNT ON;
    UPDATE dbo.tenure_terms SET ended_at = SYSUTCDATETIME(), reason = @reason
    WHERE scope = @scope AND epoch = @epoch AND holder = @holder AND ended_at IS NULL;
END
