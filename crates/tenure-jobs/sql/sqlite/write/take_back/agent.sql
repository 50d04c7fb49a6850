-- All that an agent has, in one namespace or in every one.
SELECT row_number, leased_by
FROM tenure_jobs
WHERE state = 'leased' AND leased_by = :name AND namespace = coalesce(:namespace, namespace)
ORDER BY row_number
