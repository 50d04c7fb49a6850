-- Hands a queued job to an agent; no row when it is queued no more, or overdue.
UPDATE tenure_jobs
SET state = 'leased', lease_id = :lease_id, leased_by = :agent, leased_at = :now, lease_us = :lease_us,
    lease_expires_at = :now + min(coalesce(:lease_us, :lease), coalesce(run_us, coalesce(:lease_us, :lease))),
    leader_epoch = :leader_epoch
WHERE row_number = :row_number AND state = 'queued' AND job_epoch = :job_epoch
  AND (deadline_at IS NULL OR deadline_at > :now)
RETURNING namespace, job_id, job_epoch, op, payload, pinned_agent
