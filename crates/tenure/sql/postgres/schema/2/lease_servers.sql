-- The lease tables that are there already learn which server granted a term.
SELECT tenure_create_lease_table(name) FROM tenure_lease_tables;
