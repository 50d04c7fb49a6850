-- Lets the next winner of a scope bring another kind of lock. For an operator who has stopped every node.
ALTER PROCEDURE dbo.tenure_switch_lock @scope nvarchar(200)
AS
BEGIN
    SET NOCOUNT ON;
    UPDATE dbo.tenure_fences SET lock_kind = '', lock_place = N'' WHERE scope = @scope;
    IF @@ROWCOUNT = 0
        THROW 51003, N'nobody has ever led this scope', 1;
END
