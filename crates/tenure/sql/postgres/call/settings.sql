-- Settings of this transaction alone. An epoch that was handed out must survive a crash of the server.
-- $1 text: statement timeout in milliseconds; a wait for the row's lock ends with it.
SELECT set_config('statement_timeout', $1, true),
       set_config('synchronous_commit', CASE
           WHEN current_setting('synchronous_commit') IN ('on', 'remote_apply')
           THEN current_setting('synchronous_commit')
           ELSE 'on'
       END, true)
