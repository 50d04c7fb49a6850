-- Takes a job back: it is queued again, under the next job epoch, or has failed if that was once too often; no row when
-- it has ended already.
UPDATE tenure_jobs
SET state = CASE WHEN :is_over THEN 'failed' ELSE 'queued' END,
    job_epoch = job_epoch + 1,
    lost_leases = lost_leases + :counts,
    lease_id = CASE WHEN :is_over THEN coalesce(lease_id, '') END,
    leased_by = CASE WHEN :is_over THEN leased_by END,
    leased_at = CASE WHEN :is_over THEN leased_at END,
    lease_expires_at = NULL,
    not_before = NULL,
    completed_at = CASE WHEN :is_over THEN :now END,
    leader_epoch = :leader_epoch
WHERE row_number = :row_number AND completed_at IS NULL
RETURNING row_number, namespace, job_id, op, priority, pinned_agent, job_epoch, octet_length(payload) AS bytes,
          lease_id, lost_leases
