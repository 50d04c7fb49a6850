-- One event.
INSERT INTO tenure_job_events (
    event_number, namespace, kind, job_id, job_epoch, agent, detail, lease_id, leader_epoch, recorded_at
) VALUES (:event_number, :namespace, :kind, :job_id, :job_epoch, :agent, :detail, :lease_id, :leader_epoch, :now)
