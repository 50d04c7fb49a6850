-- A job that was given back, or failed and may be tried once more, after a pause that doubles up to an hour.
UPDATE tenure_jobs
SET state = 'queued',
    job_epoch = job_epoch + 1,
    failures = failures + (:status = 'failed'),
    not_before = CASE
        WHEN :status = 'failed' THEN :now + min(3600000000, coalesce(retry_us, 1000000) * (1 << min(failures, 20)))
    END,
    left_lease = lease_id,
    lease_id = NULL,
    leased_by = NULL,
    leased_at = NULL,
    lease_expires_at = NULL,
    leader_epoch = :leader_epoch
WHERE row_number = :row_number
RETURNING row_number, namespace, job_id, op, priority, pinned_agent, job_epoch, octet_length(payload) AS bytes,
          not_before IS NULL AS is_ready
