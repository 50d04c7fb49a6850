-- A lease that no agent knows of.
SELECT row_number, leased_by, 'the agent was not told' AS reason, 0 AS counts, 0 AS is_over
FROM tenure_jobs
WHERE state = 'leased' AND lease_id = :lease_id
ORDER BY row_number
