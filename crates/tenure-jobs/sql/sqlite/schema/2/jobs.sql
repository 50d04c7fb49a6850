-- How often a job may be lost or fail, by when it must have ended, and how long one run of it may take; whatever is
-- null has no limit. A job that ended without an agent has an empty lease_id. Spans are microseconds.
ALTER TABLE tenure_jobs ADD COLUMN lost_leases INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tenure_jobs ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tenure_jobs ADD COLUMN max_lost_leases INTEGER CHECK (max_lost_leases >= 1);
ALTER TABLE tenure_jobs ADD COLUMN max_failures INTEGER CHECK (max_failures >= 1);
ALTER TABLE tenure_jobs ADD COLUMN retry_us INTEGER CHECK (retry_us >= 0);
ALTER TABLE tenure_jobs ADD COLUMN run_us INTEGER CHECK (run_us >= 1);
ALTER TABLE tenure_jobs ADD COLUMN deadline_at INTEGER;
-- A job that failed waits until then for its next run.
ALTER TABLE tenure_jobs ADD COLUMN not_before INTEGER;
-- How long its lease lasts, where its agent asked for another length.
ALTER TABLE tenure_jobs ADD COLUMN lease_us INTEGER CHECK (lease_us >= 1);
-- The lease under which it was given back or failed last: who says so again is not wrong.
ALTER TABLE tenure_jobs ADD COLUMN left_lease TEXT;
CREATE INDEX tenure_jobs_postponed ON tenure_jobs (not_before) WHERE not_before IS NOT NULL;
CREATE INDEX tenure_jobs_deadlines ON tenure_jobs (deadline_at) WHERE deadline_at IS NOT NULL AND completed_at IS NULL;
-- An error that is not a text, as it was sent.
ALTER TABLE tenure_job_results ADD COLUMN error_value TEXT;
