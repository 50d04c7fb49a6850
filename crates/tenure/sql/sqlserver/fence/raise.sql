-- Raises the fence to a term that was won. One row.
-- @P1 nvarchar(200): scope, @P2 nvarchar(255): holder, @P3 bigint: epoch, @P4 varchar(32): lock_kind,
-- @P5 nvarchar(200): lock_place, @P6 bigint: margin in milliseconds.
EXEC dbo.tenure_raise_fence @scope = @P1, @holder = @P2, @epoch = @P3, @lock_kind = @P4, @lock_place = @P5,
    @margin_ms = @P6;
