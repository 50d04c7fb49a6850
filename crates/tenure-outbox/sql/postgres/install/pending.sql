-- What is still to be done: one row per instruction, with the lease of the worker that has it.
CREATE TABLE IF NOT EXISTS public.payment_outbox_pending (
    outbox_id        uuid             PRIMARY KEY DEFAULT uuid_v7_or_random(),
    instruction_id   text COLLATE "C" NOT NULL,
    participant_id   text COLLATE "C" NOT NULL,
    sequence_id      bigint           NOT NULL,
    idempotency_key  text COLLATE "C" NOT NULL,
    rail_type        text COLLATE "C" NOT NULL,
    payload          jsonb            NOT NULL,
    attempt_count    integer          NOT NULL DEFAULT 0,
    next_attempt_at  timestamptz      NOT NULL DEFAULT now(),
    created_at       timestamptz      NOT NULL DEFAULT now()
);

-- Set by claim and repair alone, hence without defaults.
ALTER TABLE public.payment_outbox_pending
    ADD COLUMN IF NOT EXISTS claimed_by text,
    ADD COLUMN IF NOT EXISTS claimed_at timestamptz,
    ADD COLUMN IF NOT EXISTS lease_token uuid,
    ADD COLUMN IF NOT EXISTS lease_expires_at timestamptz;

-- A queue: rows come, change once or twice and go, so space must come back quickly.
ALTER TABLE public.payment_outbox_pending SET (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_analyze_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0
);

DO $$
DECLARE
    v_name text;
    v_definition text;
BEGIN
    FOR v_name, v_definition IN VALUES
        ('ux_pending_participant_sequence', 'UNIQUE (participant_id, sequence_id)'),
        ('ux_pending_idempotency', 'UNIQUE (instruction_id, idempotency_key)'),
        ('ck_pending_payload_is_object', $c$CHECK (jsonb_typeof(payload) = 'object')$c$),
        ('ck_pending_lease_consistency', $c$CHECK (
            (claimed_by IS NULL AND lease_token IS NULL AND lease_expires_at IS NULL)
            OR (claimed_by IS NOT NULL AND lease_token IS NOT NULL AND lease_expires_at IS NOT NULL)
        )$c$)
    LOOP
        IF NOT EXISTS (
            SELECT FROM pg_catalog.pg_constraint
            WHERE conrelid = 'public.payment_outbox_pending'::pg_catalog.regclass AND conname = v_name
        ) THEN
            EXECUTE pg_catalog.format(
                'ALTER TABLE public.payment_outbox_pending ADD CONSTRAINT %I %s', v_name, v_definition
            );
        END IF;
    END LOOP;
END
$$;

-- Indexes of an older make that have every row in them.
DO $$
DECLARE
    v_index pg_catalog.regclass;
BEGIN
    FOR v_index IN
        SELECT i.indexrelid::pg_catalog.regclass
        FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid
        WHERE i.indrelid = 'public.payment_outbox_pending'::pg_catalog.regclass AND i.indpred IS NULL
            AND c.relname IN (
                'idx_payment_outbox_pending_due_claim', 'ix_pending_lease_expires', 'ix_pending_claimed_by'
            )
    LOOP
        EXECUTE pg_catalog.format('DROP INDEX %s', v_index);
    END LOOP;
END
$$;

-- What a claim may take, in the order in which it takes it. Leased rows are not in it: however many there are,
-- no claim walks over them.
CREATE INDEX IF NOT EXISTS idx_payment_outbox_pending_due_claim
    ON public.payment_outbox_pending (next_attempt_at, lease_expires_at, created_at)
    WHERE lease_expires_at IS NULL;
-- Leases by their end, for those that repair.
CREATE INDEX IF NOT EXISTS ix_pending_lease_expires
    ON public.payment_outbox_pending (lease_expires_at)
    WHERE lease_expires_at IS NOT NULL;
-- Who has what, for people.
CREATE INDEX IF NOT EXISTS ix_pending_claimed_by
    ON public.payment_outbox_pending (claimed_by)
    WHERE claimed_by IS NOT NULL;

COMMENT ON TABLE public.payment_outbox_pending IS
    'Instructions that are not finished. Only the outbox functions write it: a row is claimed by a lease, and removed by the statement that appends its terminal attempt.';
COMMENT ON COLUMN public.payment_outbox_pending.attempt_count IS
    'A cache of the highest attempt_no; payment_outbox_attempts is the truth.';
COMMENT ON CONSTRAINT ux_pending_participant_sequence ON public.payment_outbox_pending IS
    'Two instructions of a participant never share a place in its order.';
COMMENT ON CONSTRAINT ux_pending_idempotency ON public.payment_outbox_pending IS
    'An instruction is enqueued once per idempotency key, however often it is sent.';
COMMENT ON CONSTRAINT ck_pending_lease_consistency ON public.payment_outbox_pending IS
    'A lease is there as a whole or not at all.';
