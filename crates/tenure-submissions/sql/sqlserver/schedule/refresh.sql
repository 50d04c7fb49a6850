-- A page of what was written since a position, in order; and where things stand now, also when nothing was.
-- Up to the lowest rowversion of a transaction that is open, which is read before the rows are: all below it are
-- committed, in whatever order, and all others come with a later refresh.
-- @P1 bigint: the position, @P2 bigint: up to where, null for up to now, @P3 bigint (nanoseconds) and
-- @P4 nvarchar(200): the last row of the page before, @P5 int: how many.
IF CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS varchar(32)) = 'READ_ONLY'
    THROW 51003, N'this database is read-only: only the primary knows what is written', 1;
DECLARE @upto bigint = COALESCE(@P2, CAST(MIN_ACTIVE_ROWVERSION() AS bigint));
DECLARE @above binary(8) = CAST(@P1 AS binary(8)), @below binary(8) = CAST(@upto AS binary(8)), @most int = @P5;
SELECT stand.marker, stand.server, stand.now, page.row_number, page.version, page.next_attempt_at, page.modified_ns,
       page.intent_id
FROM (SELECT @upto AS marker, {server} AS server,
             DATEDIFF_BIG(MICROSECOND, '1970-01-01', SYSUTCDATETIME()) AS now) AS stand
LEFT JOIN (
    SELECT TOP (@most) row_number, version, intent_id,
           DATEDIFF_BIG(MICROSECOND, '1970-01-01', next_attempt_at) AS next_attempt_at,
           DATEDIFF_BIG(NANOSECOND, CAST('1970-01-01' AS datetime2(7)), last_modified_at) AS modified_ns
    FROM dbo.submission_intents WITH (FORCESEEK, INDEX (submission_intents_modified))
    WHERE modified >= @above
      AND modified < @below
      AND (DATEDIFF_BIG(NANOSECOND, CAST('1970-01-01' AS datetime2(7)), last_modified_at) > @P3
           OR (DATEDIFF_BIG(NANOSECOND, CAST('1970-01-01' AS datetime2(7)), last_modified_at) = @P3
               AND intent_id > @P4))
    ORDER BY last_modified_at, intent_id
) AS page ON 1 = 1
ORDER BY page.modified_ns, page.intent_id
-- Few rows are new: nobody needs memory for a share of all of them.
OPTION (OPTIMIZE FOR (@above = 0x7FFFFFFFFFFFFFFF, @below = 0x7FFFFFFFFFFFFFFF));
