-- One row per attempt whose outcome is known; only ever appended. Moments are microseconds since 1970, UTC.
CREATE TABLE submission_attempts (
    intent_id      TEXT    NOT NULL,
    attempt_number INTEGER NOT NULL CHECK (attempt_number >= 1),
    started_at     INTEGER NOT NULL,
    finished_at    INTEGER NOT NULL,
    outcome_status TEXT,
    outcome_reason TEXT,
    error          TEXT,
    PRIMARY KEY (intent_id, attempt_number)
) STRICT, WITHOUT ROWID;
