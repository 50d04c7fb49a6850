-- Stores a job, unless something has its name: then no row.
INSERT INTO tenure_jobs (
    namespace, job_id, op, payload, content_hash, priority, pinned_agent, leader_epoch, created_at, max_lost_leases,
    max_failures, retry_us, run_us, deadline_at
) VALUES (
    :namespace, :job_id, :op, :payload, :content_hash, :priority, :pinned_agent, :leader_epoch, :now, :max_lost_leases,
    :max_failures, :retry_us, :run_us, :now + :deadline_us
)
ON CONFLICT (namespace, job_id) DO NOTHING
RETURNING row_number
