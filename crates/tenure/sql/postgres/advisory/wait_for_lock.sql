-- Waits for the lock until lock_timeout (55P03). The server wakes the next waiter within milliseconds.
-- $1 bigint: scope_key.
SELECT pg_advisory_lock($1)
