-- Frees the lock however often it was taken; the session is closed right after.
SELECT pg_advisory_unlock_all()
