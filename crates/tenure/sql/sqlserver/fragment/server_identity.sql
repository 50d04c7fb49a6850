CONCAT(@@SERVERNAME, ':', (SELECT CAST(recovery_fork_guid AS varchar(36))
                           FROM sys.database_recovery_status
                           WHERE database_id = DB_ID()))
