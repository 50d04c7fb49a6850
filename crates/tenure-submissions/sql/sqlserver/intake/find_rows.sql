-- Intents by the numbers of their rows, for whoever waits for them.
-- @P1 nvarchar(max): rows, as JSON.
SELECT i.intent_id, i.row_number, i.submission_target, i.payload_hash,
       DATEDIFF_BIG(MICROSECOND, '1970-01-01', i.created_at) AS created_at, i.status,
       DATEDIFF_BIG(MICROSECOND, '1970-01-01', i.completed_at) AS completed_at,
       i.final_outcome_reason, i.exhausted_reason, i.attempt_count
FROM OPENJSON(@P1) WITH (row_number bigint '$') AS n
JOIN dbo.submission_intents AS i WITH (FORCESEEK) ON i.row_number = n.row_number;
