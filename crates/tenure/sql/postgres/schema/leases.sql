-- The lease table that is used unless another is named.
SELECT tenure_create_lease_table('tenure_leases');
