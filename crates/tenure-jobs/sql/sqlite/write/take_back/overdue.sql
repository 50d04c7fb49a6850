-- Jobs that have not ended by their deadline, so many at a time.
SELECT row_number, leased_by, 'deadline passed' AS reason, 0 AS counts, 1 AS is_over
FROM tenure_jobs
WHERE deadline_at <= :now AND completed_at IS NULL
ORDER BY row_number
LIMIT :most
