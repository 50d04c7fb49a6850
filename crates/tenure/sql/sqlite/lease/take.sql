-- Takes the lease, inside a transaction that has the file's write lock and has seen that it is free. One row.
-- A lease that was granted in another file, or of which there is no trace beside data that was written behind a
-- fence, may be acted in, and nobody here knows: whoever takes it sits a whole one out, and nobody can shorten that.
-- ?1 text: lease_name, ?2 text: holder_id, ?3 integer: lease in milliseconds, ?4 integer: highest epoch that
-- the candidate knows of, ?5 text: its nonce, ?6 text: this boot, ?7 text: this host, ?8 text: this file,
-- ?9 text: this clock, ?10 integer: where the fence of the data stands.
INSERT INTO tenure_leases (
    lease_name, holder_id, lease_epoch, acquired_at, renewed_at, expires_at, nonce, boot_id, host, file, clock,
    unknown_until)
SELECT ?1, ?2, max(?4, ?10) + 1, clock.now, clock.now, clock.now + ?3, ?5, ?6, ?7, ?8, ?9,
       CASE WHEN ?10 > 0 THEN clock.now + ?3 ELSE 0 END
FROM (SELECT boottime_ms() AS now) AS clock
WHERE true
ON CONFLICT (lease_name) DO UPDATE
SET holder_id     = excluded.holder_id,
    lease_epoch   = max(lease_epoch, ?4, ?10) + 1,
    acquired_at   = excluded.acquired_at,
    renewed_at    = excluded.renewed_at,
    expires_at    = excluded.expires_at,
    nonce         = excluded.nonce,
    boot_id       = excluded.boot_id,
    host          = excluded.host,
    file          = excluded.file,
    clock         = excluded.clock,
    unknown_until = CASE
        WHEN boot_id <> excluded.boot_id THEN 0
        WHEN file NOT IN ('', excluded.file) THEN excluded.expires_at
        ELSE min(unknown_until, excluded.expires_at)
    END
RETURNING lease_epoch, max(unknown_until - acquired_at, 0) AS settle_ms
