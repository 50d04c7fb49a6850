-- What an attempt came to. DISPATCHING is kept for older readers and never inserted: work in progress is the
-- lease on the pending row.
DO $$
BEGIN
    CREATE TYPE public.outbox_attempt_state AS ENUM (
        'DISPATCHING', 'DISPATCHED', 'RETRYABLE', 'FAILED', 'ZOMBIE_REQUEUE'
    );
EXCEPTION WHEN duplicate_object THEN
    NULL;
END
$$;
