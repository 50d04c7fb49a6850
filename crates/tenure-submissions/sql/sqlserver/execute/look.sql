-- What became of intents that could not be taken.
-- @P1 nvarchar(max): rows, as JSON, @P2 bigint: epoch, @P3 bit: whether one-shots are repeated.
DECLARE @now datetime2(7) = SYSUTCDATETIME();
SELECT i.row_number, i.version, DATEDIFF_BIG(MICROSECOND, '1970-01-01', i.next_attempt_at) AS next_attempt_at,
       CAST(CASE WHEN i.status = 'pending'
                      AND (DATEDIFF_BIG(MICROSECOND, i.created_at, @now) / 1000000 >= i.max_acceptance_seconds
                           OR (i.policy = 'one_shot' AND i.reserved_epoch <> @P2 AND @P3 = 0))
                 THEN 1 ELSE 0 END AS bit) AS is_over
FROM OPENJSON(@P1) WITH (row_number bigint '$') AS n
JOIN dbo.submission_intents AS i WITH (FORCESEEK) ON i.row_number = n.row_number;
