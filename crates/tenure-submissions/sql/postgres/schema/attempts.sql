-- One row per attempt whose outcome is known; only ever appended.
CREATE TABLE submission_attempts (
    intent_id      varchar(200) COLLATE "C" NOT NULL,
    attempt_number integer                  NOT NULL CHECK (attempt_number >= 1),
    started_at     timestamptz              NOT NULL,
    finished_at    timestamptz              NOT NULL,
    outcome_status text,
    outcome_reason text,
    error          text,
    PRIMARY KEY (intent_id, attempt_number)
);
