-- One row: the last number that an event got, and the scope whose leader writes here. A file has one writer at a
-- time, so events are numbered in the order of commits.
CREATE TABLE tenure_job_changes (
    id           INTEGER PRIMARY KEY CHECK (id = 1),
    scope        TEXT    NOT NULL,
    event_number INTEGER NOT NULL
) STRICT;
INSERT INTO tenure_job_changes (id, scope, event_number) VALUES (1, '', 0);
