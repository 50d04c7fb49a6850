-- The lease that an event speaks of.
ALTER TABLE tenure_job_events ADD COLUMN lease_id TEXT;
-- Numbers of events are given anew after a restore. Each term has a name of its own that nobody can foresee: with it a
-- number means one event for ever.
ALTER TABLE tenure_job_leaders ADD COLUMN history TEXT NOT NULL DEFAULT '0';
ALTER TABLE tenure_job_leaders ADD COLUMN first_event INTEGER NOT NULL DEFAULT 1;
