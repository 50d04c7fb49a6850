-- The executor's lease, under the name and with the columns that others know.
EXEC dbo.tenure_create_lease_table @name = N'submission_manager_leases';
