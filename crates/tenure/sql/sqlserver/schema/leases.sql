-- The lease table that is used unless another is named.
EXEC dbo.tenure_create_lease_table @name = N'tenure_leases';
