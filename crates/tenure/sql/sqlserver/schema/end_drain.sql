-- Lets whoever was drained contend again. One row: whether anybody had been asked.
ALTER PROCEDURE dbo.tenure_end_drain @scope nvarchar(200)
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @ended int;
    DELETE FROM dbo.tenure_drains WHERE scope = @scope;
    SET @ended = @@ROWCOUNT;
    SELECT CAST(CASE WHEN @ended > 0 THEN 1 ELSE 0 END AS bit) AS had_been;
END
