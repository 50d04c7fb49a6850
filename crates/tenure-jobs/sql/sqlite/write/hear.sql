-- An agent is alive.
INSERT INTO tenure_job_agents (
    namespace, name, state, labels, capabilities, worker_profile, metrics, leader_epoch, first_seen_at, last_seen_at
) VALUES (:namespace, :name, 'alive', :labels, :capabilities, :worker_profile, :metrics, :leader_epoch, :now, :now)
ON CONFLICT (namespace, name) DO UPDATE
SET state = 'alive',
    labels = excluded.labels,
    capabilities = excluded.capabilities,
    worker_profile = excluded.worker_profile,
    metrics = excluded.metrics,
    leader_epoch = excluded.leader_epoch,
    last_seen_at = excluded.last_seen_at
