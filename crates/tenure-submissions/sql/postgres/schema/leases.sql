-- The executor's lease, under the name and with the columns that others know.
SELECT tenure_create_lease_table('submission_manager_leases');
