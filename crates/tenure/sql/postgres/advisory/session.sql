-- Settings of the session that waits for and holds an advisory lock. The lock lives as long as the session,
-- so the server must notice a dead client, and must not end a live one before its gate has shut.
-- $1 text: how long a client may be silent, in milliseconds; $2 text: the same in whole seconds, a third of
-- it rounded up; $3 text: how long one wait for the lock lasts, in milliseconds; $4 text: that and the time
-- of a call. Its few statements are planned once, beforehand: a winner is in a hurry.
SELECT set_config('idle_session_timeout', $1, false),
       set_config('tcp_user_timeout', $1, false),
       set_config('tcp_keepalives_idle', $2, false),
       set_config('tcp_keepalives_interval', $2, false),
       set_config('tcp_keepalives_count', '2', false),
       set_config('client_connection_check_interval', '1000', false),
       set_config('default_transaction_isolation', 'read committed', false),
       set_config('default_transaction_read_only', 'off', false),
       set_config('synchronous_commit', 'on', false),
       set_config('plan_cache_mode', 'force_generic_plan', false),
       set_config('lock_timeout', $3, false),
       set_config('statement_timeout', $4, false),
       pg_is_in_recovery() AS standby
