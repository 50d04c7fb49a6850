-- Whether this server follows another: one row, one boolean. What a standby shows may be late.
SELECT pg_is_in_recovery()
