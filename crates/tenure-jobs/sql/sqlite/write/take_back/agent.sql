-- What an agent has, in one namespace or in every one, so many at a time.
SELECT row_number, leased_by, :reason AS reason, 0 AS counts, 0 AS is_over
FROM tenure_jobs
WHERE state = 'leased' AND leased_by = :name AND namespace = coalesce(:namespace, namespace)
ORDER BY row_number
LIMIT :most
