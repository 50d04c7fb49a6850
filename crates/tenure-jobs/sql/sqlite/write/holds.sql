-- Whether a lease is an agent's.
SELECT EXISTS (
    SELECT 1 FROM tenure_jobs
    WHERE state = 'leased' AND namespace = :namespace AND leased_by = :name AND lease_id = :lease_id
      AND (lease_expires_at > :now OR :spares AND leased_at < (SELECT began_at FROM tenure_job_leaders WHERE leader_epoch = :leader_epoch))
)
