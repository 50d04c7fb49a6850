-- A job that ended without a result.
INSERT INTO tenure_job_results (row_number, job_epoch, lease_id, status, error, leader_epoch, recorded_at)
VALUES (:row_number, :job_epoch, :lease_id, 'failed', :error, :leader_epoch, :now)
