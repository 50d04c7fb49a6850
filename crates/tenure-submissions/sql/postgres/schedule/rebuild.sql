-- All pending intents, and the position from which a refresh goes on, in one statement: as COPY sends it.
-- The first row is the position: a snapshot and the server's identity; in the others both are null.
COPY (
    SELECT 0::bigint, 0::bigint, NULL::timestamptz, pg_current_snapshot()::text,
           public.tenure_server_identity()
    UNION ALL
    SELECT row_number, version, next_attempt_at, NULL, NULL
    FROM public.submission_intents
    WHERE status = 'pending'
) TO STDOUT (FORMAT binary)
