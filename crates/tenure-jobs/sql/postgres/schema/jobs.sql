-- One row per job. job_epoch grows whenever a lease of the job expires or is taken back; leader_epoch is the term
-- that wrote the row last. The lease stays with a job that has ended: it says who did it.
CREATE TABLE tenure_jobs (
    row_number       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace        text        COLLATE "C" NOT NULL CHECK (namespace <> ''),
    job_id           text        COLLATE "C" NOT NULL,
    op               text        COLLATE "C" NOT NULL,
    payload          text        NOT NULL,
    content_hash     bytea       NOT NULL CHECK (octet_length(content_hash) = 32),
    priority         smallint    NOT NULL CHECK (priority BETWEEN 0 AND 3),
    pinned_agent     text        COLLATE "C",
    state            text        NOT NULL DEFAULT 'queued'
                     CHECK (state IN ('queued', 'leased', 'succeeded', 'failed')),
    job_epoch        bigint      NOT NULL DEFAULT 1 CHECK (job_epoch >= 1),
    leader_epoch     bigint      NOT NULL,
    lease_id         text        COLLATE "C",
    leased_by        text        COLLATE "C",
    leased_at        timestamptz,
    lease_expires_at timestamptz,
    created_at       timestamptz NOT NULL,
    completed_at     timestamptz,
    UNIQUE (namespace, job_id),
    CHECK ((state = 'queued') = (lease_id IS NULL)),
    CHECK ((state = 'leased') = (lease_expires_at IS NOT NULL)),
    CHECK ((state IN ('succeeded', 'failed')) = (completed_at IS NOT NULL))
) WITH (fillfactor = 80);
CREATE INDEX tenure_jobs_listed ON tenure_jobs (namespace, row_number);
CREATE INDEX tenure_jobs_queued ON tenure_jobs (priority, row_number) WHERE state = 'queued';
CREATE INDEX tenure_jobs_leased ON tenure_jobs (namespace, leased_by) WHERE state = 'leased';
COMMENT ON COLUMN tenure_jobs.row_number IS 'What the leader queues by, and the order of age.';
