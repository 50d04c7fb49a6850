-- Intents by their ids, for whoever asks for them or has met them. A space at the end counts.
-- @P1 nvarchar(max): ids, as JSON.
SELECT i.intent_id, i.row_number, i.submission_target, i.payload_hash,
       DATEDIFF_BIG(MICROSECOND, '1970-01-01', i.created_at) AS created_at, i.status,
       DATEDIFF_BIG(MICROSECOND, '1970-01-01', i.completed_at) AS completed_at,
       i.final_outcome_reason, i.exhausted_reason, i.attempt_count
FROM OPENJSON(@P1) WITH (id nvarchar(200) '$') AS s
JOIN dbo.submission_intents AS i WITH (FORCESEEK)
    ON i.intent_id = s.id COLLATE Latin1_General_100_BIN2 AND DATALENGTH(i.intent_id) = DATALENGTH(s.id);
