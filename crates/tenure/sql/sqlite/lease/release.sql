-- Ends the lease now, if it is still this term's. The row and its epoch stay.
-- ?1 text: lease_name, ?2 text: holder_id, ?3 integer: lease_epoch.
UPDATE tenure_leases
SET expires_at = min(expires_at, boottime_ms())
WHERE lease_name = ?1 AND holder_id = ?2 AND lease_epoch = ?3
