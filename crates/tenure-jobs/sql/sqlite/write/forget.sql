-- Forgets an agent.
DELETE FROM tenure_job_agents WHERE namespace = :namespace AND name = :name
