-- What was tried for an intent, in order.
-- @P1 nvarchar(200): intent_id.
SELECT attempt_number,
       DATEDIFF_BIG(MICROSECOND, '1970-01-01', started_at) AS started_at,
       DATEDIFF_BIG(MICROSECOND, '1970-01-01', finished_at) AS finished_at,
       outcome_status, outcome_reason, error, COALESCE(key_number, attempt_number) AS key_number
FROM dbo.submission_attempts
WHERE intent_id = @P1 AND DATALENGTH(intent_id) = DATALENGTH(@P1)
ORDER BY attempt_number;
