-- The scope whose leader writes here.
UPDATE tenure_job_changes SET scope = :scope
