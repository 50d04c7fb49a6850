-- Waits until no other process migrates this database; freed with the transaction.
-- The key is the ASCII of "tenure_m".
SET LOCAL search_path = public;
SELECT pg_advisory_xact_lock(8387231331756892013)
