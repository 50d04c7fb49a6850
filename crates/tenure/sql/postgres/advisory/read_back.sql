-- What the server made of the session's settings, in milliseconds; zero means never.
SELECT (extract(epoch FROM current_setting('idle_session_timeout')::interval) * 1000)::float8 AS idle_ms,
       current_setting('tcp_user_timeout')::interval <> interval '0' AS has_user_timeout,
       (extract(epoch FROM current_setting('tcp_user_timeout')::interval) * 1000)::float8 AS user_timeout_ms,
       (extract(epoch FROM (
           current_setting('tcp_keepalives_idle')::interval
           + current_setting('tcp_keepalives_interval')::interval
           * current_setting('tcp_keepalives_count')::integer)) * 1000)::float8 AS keepalive_ms
