-- One row: the last number that an event got, and the scope whose leader writes here. Whoever writes jobs locks it
-- first, so events are numbered in the order of commits, and the clock is read when nobody else can be waited for.
CREATE TABLE tenure_job_changes (
    id           boolean PRIMARY KEY DEFAULT true CHECK (id),
    scope        text    NOT NULL,
    event_number bigint  NOT NULL
);
INSERT INTO tenure_job_changes (scope, event_number) VALUES ('', 0);
