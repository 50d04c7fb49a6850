-- At most one row per scope: the last term that an operator asked to hand over.
CREATE TABLE tenure_drains (
    scope    TEXT    NOT NULL PRIMARY KEY,
    epoch    INTEGER NOT NULL,
    asked_at TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
