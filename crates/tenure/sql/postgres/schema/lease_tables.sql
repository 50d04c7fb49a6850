-- The lease tables that the fence may look at. Only whoever migrates can add one: the fence reads them
-- with its owner's rights.
CREATE TABLE tenure_lease_tables (name text PRIMARY KEY);
