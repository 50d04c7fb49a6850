-- Who leads from now on, and where.
INSERT INTO tenure_job_leaders (leader_epoch, leader_id, leader_url, began_at)
VALUES (:leader_epoch, :leader_id, :leader_url, :now)
