-- All pending intents, and the position from which a refresh goes on. The first row is the position; in the others it
-- is null. What is at or above the position is left to a refresh: it was written while they are read, or after
-- something that is not committed yet.
IF CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS varchar(32)) = 'READ_ONLY'
    THROW 51003, N'this database is read-only: only the primary knows what is written', 1;
DECLARE @marker bigint = CAST(MIN_ACTIVE_ROWVERSION() AS bigint);
DECLARE @below binary(8) = CAST(@marker AS binary(8));
SELECT CAST(0 AS bigint) AS row_number, CAST(0 AS bigint) AS version, CAST(NULL AS bigint) AS next_attempt_at,
       @marker AS marker, {server} AS server;
SELECT row_number, version, DATEDIFF_BIG(MICROSECOND, '1970-01-01', next_attempt_at) AS next_attempt_at,
       CAST(NULL AS bigint) AS marker, CAST(NULL AS nvarchar(300)) AS server
FROM dbo.submission_intents
WHERE status = 'pending' AND modified < @below;
