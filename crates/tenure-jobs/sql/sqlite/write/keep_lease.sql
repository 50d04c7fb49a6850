-- A lease that was granted.
INSERT INTO tenure_job_leases (lease_id, namespace, agent, leader_epoch, granted_at)
VALUES (:lease_id, :namespace, :agent, :leader_epoch, :now)
