-- Whoever works gets time to hand in what it finished meanwhile.
UPDATE tenure_jobs
SET lease_expires_at = max(lease_expires_at, :until), leader_epoch = :leader_epoch
WHERE state = 'leased'
