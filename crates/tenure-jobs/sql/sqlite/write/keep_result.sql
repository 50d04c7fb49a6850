-- What came of a job.
INSERT INTO tenure_job_results (
    row_number, job_epoch, lease_id, status, result, error, error_value, leader_epoch, recorded_at
) VALUES (:row_number, :job_epoch, :lease_id, :status, :result, :error, :error_value, :leader_epoch, :now)
