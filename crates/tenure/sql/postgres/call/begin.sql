-- A statement that must be durable runs in a transaction that says so itself, whatever the session or the
-- role has set, and works through a transaction pooler.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE
