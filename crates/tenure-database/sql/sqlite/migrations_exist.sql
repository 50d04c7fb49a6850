-- Whether anything was ever migrated here: one row, or none.
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'tenure_migrations'
