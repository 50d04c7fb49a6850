-- The lease tables that are there already learn which server granted a term.
DECLARE @name nvarchar(128);
DECLARE tables CURSOR LOCAL STATIC FOR SELECT name FROM dbo.tenure_lease_tables;
OPEN tables;
FETCH NEXT FROM tables INTO @name;
WHILE @@FETCH_STATUS = 0
BEGIN
    EXEC dbo.tenure_create_lease_table @name;
    FETCH NEXT FROM tables INTO @name;
END;
CLOSE tables;
DEALLOCATE tables;
