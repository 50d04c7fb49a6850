-- The lease as it is. One row, or none. Another boot means that its holder is dead: nothing is left.
-- ?1 text: lease_name, ?2 text: this boot, ?3 text: nonce of the candidate that asks.
SELECT holder_id,
       lease_epoch,
       CASE WHEN boot_id = ?2 THEN max(expires_at - boottime_ms(), 0) ELSE 0 END AS left_ms,
       CASE WHEN boot_id = ?2 THEN max(boottime_ms() - renewed_at, 0) ELSE 0 END AS age_ms,
       nonce = ?3 AS ours,
       boot_id = ?2 AS this_boot,
       host,
       clock
FROM tenure_leases
WHERE lease_name = ?1
