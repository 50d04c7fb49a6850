-- The history of terms: who led, from when to when, and why it ended. Times are for people: UTC.
CREATE TABLE tenure_terms (
    scope     TEXT    NOT NULL,
    epoch     INTEGER NOT NULL,
    holder    TEXT    NOT NULL,
    lock_kind TEXT    NOT NULL,
    began_at  TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    ended_at  TEXT,
    reason    TEXT,
    PRIMARY KEY (scope, epoch)
) STRICT;
