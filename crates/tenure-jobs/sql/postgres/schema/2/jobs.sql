-- How often a job may be lost or fail, by when it must have ended, and how long one run of it may take; whatever is
-- null has no limit. A job that ended without an agent has an empty lease_id.
ALTER TABLE tenure_jobs
    ADD COLUMN lost_leases     integer NOT NULL DEFAULT 0,
    ADD COLUMN failures        integer NOT NULL DEFAULT 0,
    ADD COLUMN max_lost_leases integer CHECK (max_lost_leases >= 1),
    ADD COLUMN max_failures    integer CHECK (max_failures >= 1),
    ADD COLUMN retry_ms        bigint CHECK (retry_ms >= 0),
    ADD COLUMN run_ms          bigint CHECK (run_ms >= 1),
    ADD COLUMN deadline_at     timestamptz,
    ADD COLUMN not_before      timestamptz,
    ADD COLUMN lease_ms        bigint CHECK (lease_ms >= 1),
    ADD COLUMN left_lease      text COLLATE "C";
COMMENT ON COLUMN tenure_jobs.not_before IS 'A job that failed waits until then for its next run.';
COMMENT ON COLUMN tenure_jobs.lease_ms IS 'How long its lease lasts, where its agent asked for another length.';
COMMENT ON COLUMN tenure_jobs.left_lease IS 'The lease under which it was given back or failed last: who says so again is not wrong.';
CREATE INDEX tenure_jobs_postponed ON tenure_jobs (not_before) WHERE not_before IS NOT NULL;
CREATE INDEX tenure_jobs_deadlines ON tenure_jobs (deadline_at) WHERE deadline_at IS NOT NULL AND completed_at IS NULL;
-- An error that is not a text, as it was sent.
ALTER TABLE tenure_job_results ADD COLUMN error_value text;
