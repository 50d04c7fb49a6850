-- Records a migration in the transaction that applied it.
-- @P1 varchar(64): component, @P2 int: version, @P3 nvarchar(200): name, @P4 char(16): checksum, @P5 bit: breaking.
INSERT INTO dbo.tenure_migrations (component, version, name, checksum, breaking)
VALUES (@P1, @P2, @P3, @P4, @P5);
