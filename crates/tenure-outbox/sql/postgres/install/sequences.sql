-- The next sequence number of every participant. An enqueuing transaction holds the row until it commits, so
-- lower numbers are never committed after higher ones.
CREATE TABLE IF NOT EXISTS public.participant_outbox_sequences (
    participant_id   text COLLATE "C" PRIMARY KEY,
    next_sequence_id bigint           NOT NULL
);
DO $$
BEGIN
    ALTER TABLE public.participant_outbox_sequences
        ADD CONSTRAINT participant_outbox_sequences_next_sequence_id_check CHECK (next_sequence_id >= 1);
EXCEPTION WHEN duplicate_object THEN
    NULL;
END
$$;
-- Updated again and again, and never by an indexed column.
ALTER TABLE public.participant_outbox_sequences SET (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000
);
COMMENT ON TABLE public.participant_outbox_sequences IS
    'The next sequence_id of every participant. The row is locked until the enqueuing transaction commits: numbers are committed in their order.';
