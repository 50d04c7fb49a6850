-- Queues a leased job again, under the next job epoch; no row when it is not leased.
UPDATE tenure_jobs
SET state = 'queued', job_epoch = job_epoch + 1, lease_id = NULL, leased_by = NULL, leased_at = NULL,
    lease_expires_at = NULL, leader_epoch = :leader_epoch
WHERE row_number = :row_number AND state = 'leased'
RETURNING row_number, namespace, job_id, op, priority, pinned_agent, job_epoch, octet_length(payload) AS bytes
