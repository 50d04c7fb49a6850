-- Ends the lease now, if it is still this term's. The row and its epoch stay.
-- @P1 varchar(64): lease_name, @P2 varchar(128): holder_id, @P3 bigint: lease_epoch.
DECLARE @lease_name varchar(64) = @P1, @holder_id varchar(128) = @P2, @epoch bigint = @P3;
UPDATE {table}
SET expires_at = CASE WHEN expires_at < SYSUTCDATETIME() THEN expires_at ELSE SYSUTCDATETIME() END
WHERE lease_name = @lease_name AND holder_id = @holder_id AND lease_epoch = @epoch;
