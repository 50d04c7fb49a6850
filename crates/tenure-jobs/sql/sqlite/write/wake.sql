-- Jobs that have waited long enough for their next run, so many at a time. A row for each.
UPDATE tenure_jobs
SET not_before = NULL, leader_epoch = :leader_epoch
WHERE row_number IN (
    SELECT row_number FROM tenure_jobs WHERE not_before <= :now ORDER BY not_before LIMIT :most
)
RETURNING row_number, namespace, job_id, op, priority, pinned_agent, job_epoch, octet_length(payload) AS bytes
