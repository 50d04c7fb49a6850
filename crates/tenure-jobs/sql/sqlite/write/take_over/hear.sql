-- Agents are not counted as silent for as long as nobody heard them.
UPDATE tenure_job_agents SET last_seen_at = :now, leader_epoch = :leader_epoch WHERE state = 'alive'
