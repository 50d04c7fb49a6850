-- What a role needs to run elections and to write through the fence. The procedures write with their owner's rights;
-- the fence looks at the lease with its caller's.
GRANT SELECT, INSERT, UPDATE ON dbo.tenure_leases TO {role};
GRANT SELECT ON dbo.tenure_fences TO {role};
GRANT SELECT ON dbo.tenure_terms TO {role};
GRANT SELECT ON dbo.tenure_drains TO {role};
GRANT SELECT ON dbo.tenure_lease_tables TO {role};
GRANT SELECT ON dbo.tenure_migrations TO {role};
GRANT EXECUTE ON dbo.tenure_fence TO {role};
GRANT EXECUTE ON dbo.tenure_raise_fence TO {role};
GRANT EXECUTE ON dbo.tenure_end_term TO {role};
GRANT EXECUTE ON dbo.tenure_drain TO {role};
GRANT EXECUTE ON dbo.tenure_end_drain TO {role};
