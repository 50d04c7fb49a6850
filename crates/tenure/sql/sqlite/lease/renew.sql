-- Extends the lease if it is still this term's and has not expired. The clock is read under the write lock.
-- ?1 text: lease_name, ?2 text: holder_id, ?3 integer: lease_epoch, ?4 integer: lease in milliseconds,
-- ?5 text: this boot.
UPDATE tenure_leases
SET renewed_at = boottime_ms(), expires_at = boottime_ms() + ?4
WHERE lease_name = ?1 AND holder_id = ?2 AND lease_epoch = ?3 AND boot_id = ?5
  AND expires_at > boottime_ms()
