-- Asks whoever leads a scope to hand over. One row: the term that was asked; none when nobody leads.
ALTER PROCEDURE dbo.tenure_drain @scope nvarchar(200)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @epoch bigint, @holder nvarchar(255);
    BEGIN TRANSACTION;
    SELECT TOP (1) @epoch = epoch, @holder = holder
    FROM dbo.tenure_terms
    WHERE scope = @scope AND ended_at IS NULL
    ORDER BY epoch DESC;
    IF @epoch IS NOT NULL
    BEGIN
        INSERT INTO dbo.tenure_drains (scope, epoch)
        SELECT @scope, 0
        WHERE NOT EXISTS (SELECT 1 FROM dbo.tenure_drains WITH (UPDLOCK, HOLDLOCK) WHERE scope = @scope);
        UPDATE dbo.tenure_drains SET epoch = @epoch, asked_at = SYSUTCDATETIME()
        WHERE scope = @scope AND epoch <= @epoch;
    END;
    COMMIT TRANSACTION;
    SELECT @epoch AS epoch, @holder AS holder WHERE @epoch IS NOT NULL;
END
