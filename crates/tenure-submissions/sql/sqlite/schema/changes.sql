-- One row: how many transactions have written intents, and which file this is. A file has one writer at a time,
-- so the numbers of transactions are in the order of their commits.
CREATE TABLE submission_changes (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    file   TEXT    NOT NULL,
    number INTEGER NOT NULL
) STRICT;
INSERT INTO submission_changes (id, file, number) VALUES (1, lower(hex(randomblob(16))), 0);
