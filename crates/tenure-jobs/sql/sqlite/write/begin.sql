-- The last number of an event, the scope, and the moment of all that is written: read when the file's one write
-- lock is held.
SELECT event_number, scope, unixtime_us() AS now FROM tenure_job_changes
