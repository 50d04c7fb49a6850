-- The lease that an event speaks of.
ALTER TABLE tenure_job_events ADD COLUMN lease_id text;
-- Numbers of events are given anew after a restore. Each term has a name of its own that nobody can foresee: with it a
-- number means one event for ever.
ALTER TABLE tenure_job_leaders
    ADD COLUMN history     text   NOT NULL DEFAULT '0',
    ADD COLUMN first_event bigint NOT NULL DEFAULT 1;
