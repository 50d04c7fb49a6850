-- What became of intents that could not be taken.
-- $1 bigint[]: rows, $2 bigint: epoch, $3 boolean: whether one-shots are repeated.
SELECT row_number, version, next_attempt_at,
       status = 'pending'
           AND (coalesce(created_at + max_acceptance_seconds * interval '1 second' <= clock_timestamp(), false)
                OR coalesce(policy = 'one_shot' AND reserved_epoch <> $2 AND NOT $3, false)) AS is_over
FROM public.submission_intents
WHERE row_number = ANY ($1::bigint[])
