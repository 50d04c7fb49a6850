-- What an agent works on stays its own: the lease that it names, or all in its name. A lease is moved ahead when a
-- third of it has passed.
UPDATE tenure_jobs
SET lease_expires_at = :until, leader_epoch = :leader_epoch
WHERE state = 'leased' AND namespace = :namespace AND leased_by = :name
  AND lease_id = coalesce(:lease_id, lease_id)
  AND lease_expires_at > :now AND lease_expires_at < :soon
