-- The last number that an event got.
UPDATE tenure_job_changes SET event_number = :event_number
