-- Whether anything has run out: a lease, the patience with an agent, a pause or a deadline of a job, or the room for
-- events.
SELECT EXISTS (
           SELECT 1 FROM tenure_jobs
           WHERE state = 'leased' AND lease_expires_at <= unixtime_us()
             AND NOT (:spares AND leased_at < (SELECT began_at FROM tenure_job_leaders WHERE leader_epoch = :leader_epoch))
       )
    OR (:agents AND EXISTS (
           SELECT 1 FROM tenure_job_agents
           WHERE last_seen_at <= unixtime_us()
                 - CASE state WHEN 'alive' THEN :stale WHEN 'stale' THEN :tombstoned ELSE :deleted END
       ))
    OR EXISTS (SELECT 1 FROM tenure_jobs WHERE not_before <= unixtime_us())
    OR EXISTS (SELECT 1 FROM tenure_jobs WHERE deadline_at <= unixtime_us() AND completed_at IS NULL)
    OR EXISTS (
           SELECT 1 FROM tenure_job_events
           WHERE event_number <= (SELECT event_number - :kept FROM tenure_job_changes)
       )
