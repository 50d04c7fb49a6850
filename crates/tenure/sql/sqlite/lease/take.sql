-- Takes the lease, inside a transaction that has the file's write lock and has seen that it is free.
-- ?1 text: lease_name, ?2 text: holder_id, ?3 integer: lease in milliseconds, ?4 integer: highest epoch that
-- the candidate knows of, ?5 text: its nonce, ?6 text: this boot, ?7 text: this host.
INSERT INTO tenure_leases (
    lease_name, holder_id, lease_epoch, acquired_at, renewed_at, expires_at, nonce, boot_id, host)
SELECT ?1, ?2, ?4 + 1, clock.now, clock.now, clock.now + ?3, ?5, ?6, ?7
FROM (SELECT boottime_ms() AS now) AS clock
WHERE true
ON CONFLICT (lease_name) DO UPDATE
SET holder_id   = excluded.holder_id,
    lease_epoch = max(lease_epoch, ?4) + 1,
    acquired_at = excluded.acquired_at,
    renewed_at  = excluded.renewed_at,
    expires_at  = excluded.expires_at,
    nonce       = excluded.nonce,
    boot_id     = excluded.boot_id,
    host        = excluded.host
RETURNING lease_epoch
