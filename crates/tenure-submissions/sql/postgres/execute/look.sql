-- What became of intents that could not be taken.
-- $1 bigint[]: rows.
SELECT row_number, version, next_attempt_at,
       status = 'pending' AND max_acceptance_seconds IS NOT NULL
           AND created_at + max_acceptance_seconds * interval '1 second' <= clock_timestamp() AS is_late
FROM public.submission_intents
WHERE row_number = ANY ($1::bigint[])
