-- Writes the beginning of a term into the history, and the end of whatever was still open before it.
ALTER PROCEDURE dbo.tenure_begin_term
    @scope nvarchar(200), @holder nvarchar(255), @epoch bigint, @lock_kind varchar(32)
AS
BEGIN
    SET NOCOUNT ON;
    UPDATE dbo.tenure_terms SET ended_at = SYSUTCDATETIME(), reason = 'taken_over'
    WHERE scope = @scope AND ended_at IS NULL AND epoch < @epoch;
    INSERT INTO dbo.tenure_terms (scope, epoch, holder, lock_kind)
    SELECT @scope, @epoch, @holder, @lock_kind
    WHERE NOT EXISTS (SELECT 1 FROM dbo.tenure_terms WHERE scope = @scope AND epoch = @epoch);
END
