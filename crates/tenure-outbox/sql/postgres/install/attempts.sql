-- One row per attempt whose outcome is known; only ever appended, and kept for good: the terminal guard and the
-- idempotent enqueue rest on it.
CREATE TABLE IF NOT EXISTS public.payment_outbox_attempts (
    attempt_id      uuid             PRIMARY KEY DEFAULT uuid_v7_or_random(),
    outbox_id       uuid             NOT NULL,
    instruction_id  text COLLATE "C" NOT NULL,
    participant_id  text COLLATE "C" NOT NULL,
    sequence_id     bigint           NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL,
    rail_type       text COLLATE "C" NOT NULL,
    payload         jsonb            NOT NULL,
    attempt_no      integer          NOT NULL,
    state           public.outbox_attempt_state NOT NULL,
    claimed_at      timestamptz      NOT NULL DEFAULT now(),
    completed_at    timestamptz,
    rail_reference  text,
    rail_code       text,
    error_code      text,
    error_message   text,
    latency_ms      integer,
    worker_id       text,
    created_at      timestamptz      NOT NULL DEFAULT now()
);

-- The lease under which the outcome was told, so that whoever tells it twice is answered as the first time; and
-- when the instruction was enqueued, which the pending row takes with it when it goes.
ALTER TABLE public.payment_outbox_attempts
    ADD COLUMN IF NOT EXISTS lease_token uuid,
    ADD COLUMN IF NOT EXISTS enqueued_at timestamptz;

DO $$
DECLARE
    v_name text;
    v_definition text;
BEGIN
    FOR v_name, v_definition IN VALUES
        ('ux_attempts_outbox_attempt_no', 'UNIQUE (outbox_id, attempt_no)'),
        ('payment_outbox_attempts_attempt_no_check', 'CHECK (attempt_no >= 1)')
    LOOP
        IF NOT EXISTS (
            SELECT FROM pg_catalog.pg_constraint
            WHERE conrelid = 'public.payment_outbox_attempts'::pg_catalog.regclass AND conname = v_name
        ) THEN
            EXECUTE pg_catalog.format(
                'ALTER TABLE public.payment_outbox_attempts ADD CONSTRAINT %I %s', v_name, v_definition
            );
        END IF;
    END LOOP;
END
$$;

CREATE UNIQUE INDEX IF NOT EXISTS payment_outbox_attempts_one_terminal_per_outbox
    ON public.payment_outbox_attempts (outbox_id)
    WHERE state IN ('DISPATCHED', 'FAILED');
-- Finds a finished instruction by its key. Every instruction with attempts has a first one.
CREATE INDEX IF NOT EXISTS ix_attempts_idempotency
    ON public.payment_outbox_attempts (instruction_id, idempotency_key)
    WHERE attempt_no = 1;
-- Rows are appended as time goes on, so ranges of pages tell the last hour from years.
CREATE INDEX IF NOT EXISTS ix_attempts_completed
    ON public.payment_outbox_attempts USING brin (completed_at) WITH (autosummarize = on);

COMMENT ON TABLE public.payment_outbox_attempts IS
    'The history of every instruction. Append-only for everybody: trg_deny_outbox_attempts_mutation.';
COMMENT ON CONSTRAINT ux_attempts_outbox_attempt_no ON public.payment_outbox_attempts IS
    'Attempts of an instruction are numbered 1, 2, 3 and so on: two never share a number.';
COMMENT ON INDEX public.payment_outbox_attempts_one_terminal_per_outbox IS
    'Terminal uniqueness: an instruction is DISPATCHED or FAILED at most once. A violation is a backstop event, never expected.';
