-- A job has ended.
UPDATE tenure_jobs
SET state = :status, completed_at = :now, lease_expires_at = NULL, leader_epoch = :leader_epoch
WHERE row_number = :row_number
