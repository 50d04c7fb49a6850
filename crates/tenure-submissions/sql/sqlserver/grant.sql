-- What a role needs to take and to execute submissions, beside what elections need.
GRANT SELECT, INSERT, UPDATE ON dbo.submission_manager_leases TO {role};
GRANT SELECT, INSERT, UPDATE ON dbo.submission_intents TO {role};
GRANT SELECT, INSERT ON dbo.submission_attempts TO {role};
