-- Whether the lock is ours now. One that a failed wait has left with this session answers at once.
-- $1 bigint: scope_key.
SELECT pg_try_advisory_lock($1)
