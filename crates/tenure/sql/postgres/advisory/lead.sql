-- Short limits for the statements of a holder.
-- $1 text: milliseconds.
SELECT set_config('lock_timeout', $1, false), set_config('statement_timeout', $1, false)
