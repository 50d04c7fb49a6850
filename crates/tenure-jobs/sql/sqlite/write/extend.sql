-- What an agent works on stays its own: the lease that it names, or all in its name, so many at a time. A lease is moved
-- ahead when a third of it has passed; never past the time that one run of the job may take, and where no lease is
-- named, never past ten of them: nobody has said that it is worked on.
UPDATE tenure_jobs AS j
SET lease_expires_at = due.until, leader_epoch = :leader_epoch
FROM (
    SELECT row_number, until
    FROM (
        SELECT row_number, lease_expires_at, lasts,
               min(
                   :now + lasts,
                   coalesce(leased_at + coalesce(run_us, CASE WHEN :lease_id IS NULL THEN 10 * lasts END), :now + lasts)
               ) AS until
        FROM (
            SELECT *, coalesce(lease_us, :lease) AS lasts
            FROM tenure_jobs
            WHERE state = 'leased' AND namespace = :namespace AND leased_by = :name
              AND lease_id = coalesce(:lease_id, lease_id)
              AND (lease_expires_at > :now OR :spares AND leased_at < (SELECT began_at FROM tenure_job_leaders WHERE leader_epoch = :leader_epoch))
        )
    )
    WHERE lease_expires_at < :now + lasts * 2 / 3 AND lease_expires_at < until
    LIMIT :most
) AS due
WHERE j.row_number = due.row_number
