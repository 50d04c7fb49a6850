-- One row per job. job_epoch grows whenever a lease of the job expires or is taken back; leader_epoch is the term
-- that wrote the row last. The lease stays with a job that has ended: it says who did it.
CREATE TABLE tenure_jobs (
    row_number       INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace        TEXT    NOT NULL CHECK (namespace <> ''),
    job_id           TEXT    NOT NULL,
    op               TEXT    NOT NULL,
    payload          TEXT    NOT NULL,
    content_hash     BLOB    NOT NULL CHECK (length(content_hash) = 32),
    priority         INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 3),
    pinned_agent     TEXT,
    state            TEXT    NOT NULL DEFAULT 'queued'
                     CHECK (state IN ('queued', 'leased', 'succeeded', 'failed')),
    job_epoch        INTEGER NOT NULL DEFAULT 1 CHECK (job_epoch >= 1),
    leader_epoch     INTEGER NOT NULL,
    lease_id         TEXT,
    leased_by        TEXT,
    leased_at        INTEGER,
    lease_expires_at INTEGER,
    created_at       INTEGER NOT NULL,
    completed_at     INTEGER,
    UNIQUE (namespace, job_id),
    CHECK ((state = 'queued') = (lease_id IS NULL)),
    CHECK ((state = 'leased') = (lease_expires_at IS NOT NULL)),
    CHECK ((state IN ('succeeded', 'failed')) = (completed_at IS NOT NULL))
) STRICT;
CREATE INDEX tenure_jobs_listed ON tenure_jobs (namespace, row_number);
CREATE INDEX tenure_jobs_queued ON tenure_jobs (priority, row_number) WHERE state = 'queued';
CREATE INDEX tenure_jobs_leased ON tenure_jobs (namespace, leased_by) WHERE state = 'leased';
