-- Whether anything was ever migrated here: one row, one boolean.
SELECT to_regclass('public.tenure_migrations') IS NOT NULL
