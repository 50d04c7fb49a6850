-- Whose instructions are worked strictly in sequence: those of a participant, or a participant's on one rail.
-- Only the lowest pending one of them is claimable.
CREATE TABLE IF NOT EXISTS public.outbox_ordered_participants (
    participant_id text COLLATE "C" PRIMARY KEY
);
CREATE TABLE IF NOT EXISTS public.outbox_ordered_rails (
    rail_type text COLLATE "C" PRIMARY KEY
);
COMMENT ON TABLE public.outbox_ordered_participants IS
    'Participants whose instructions are worked one at a time, by sequence_id; every form of claim obeys it.';
COMMENT ON TABLE public.outbox_ordered_rails IS
    'Rails on which each participant''s instructions are worked one at a time, by sequence_id; every form of claim obeys it.';
