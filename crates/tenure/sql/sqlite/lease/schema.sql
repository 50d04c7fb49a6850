-- The leases of one machine, in a file of their own: renewals never wait behind the data's commits.
-- Times are milliseconds of the machine's boot clock, and mean something only in the boot they name.
CREATE TABLE tenure_leases (
    lease_name  TEXT    NOT NULL PRIMARY KEY,
    holder_id   TEXT    NOT NULL,
    lease_epoch INTEGER NOT NULL,
    acquired_at INTEGER NOT NULL,
    renewed_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    nonce       TEXT    NOT NULL,
    boot_id     TEXT    NOT NULL,
    host        TEXT    NOT NULL
) STRICT;
