-- Hands a queued job to an agent; no row when it is queued no more.
UPDATE tenure_jobs
SET state = 'leased', lease_id = :lease_id, leased_by = :agent, leased_at = :now, lease_expires_at = :until,
    leader_epoch = :leader_epoch
WHERE row_number = :row_number AND state = 'queued' AND job_epoch = :job_epoch
RETURNING namespace, job_id, job_epoch, op, payload, pinned_agent
