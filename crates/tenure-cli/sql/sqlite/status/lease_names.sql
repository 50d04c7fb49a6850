-- The scopes that have a row in the lease file.
-- ?1 text: a scope, or null for all.
SELECT lease_name FROM tenure_leases WHERE ?1 IS NULL OR lease_name = ?1
