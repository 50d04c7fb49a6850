-- What an agent is from now on.
UPDATE tenure_job_agents
SET state = :state, leader_epoch = :leader_epoch
WHERE namespace = :namespace AND name = :name AND state <> :state
