-- One row per scope: the highest term that may write. Only a takeover changes it.
CREATE TABLE tenure_fences (
    scope     TEXT    NOT NULL PRIMARY KEY,
    epoch     INTEGER NOT NULL,
    holder    TEXT    NOT NULL,
    lock_kind TEXT    NOT NULL
) STRICT;
