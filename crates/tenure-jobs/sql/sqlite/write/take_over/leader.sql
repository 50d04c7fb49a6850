-- Who leads from now on, and where; and by which name its events go.
INSERT INTO tenure_job_leaders (leader_epoch, leader_id, leader_url, began_at, history, first_event)
VALUES (:leader_epoch, :leader_id, :leader_url, :now, :history, :first_event)
