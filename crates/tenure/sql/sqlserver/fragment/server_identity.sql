CONCAT(@@SERVERNAME, ':', COALESCE(
    (SELECT CAST(recovery_fork_guid AS varchar(36)) FROM sys.database_recovery_status WHERE database_id = DB_ID()),
    (SELECT CONVERT(varchar(33), create_date, 126) FROM sys.databases WHERE name = DB_NAME())))
