-- Passes the fence, or throws 51001. First statement of a fenced transaction.
-- @P1 nvarchar(200): scope, @P2 nvarchar(255): holder, @P3 bigint: epoch.
EXEC dbo.tenure_fence @scope = @P1, @holder = @P2, @epoch = @P3;
