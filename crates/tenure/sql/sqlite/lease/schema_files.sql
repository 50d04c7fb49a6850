-- Which file and which clock a term was granted by: a file that was put in the place of another knows nothing of
-- what was granted in that one, and a time namespace has a boot clock of its own.
-- unknown_until: until then a term of another file may be acted in, and nobody here knows of it.
ALTER TABLE tenure_leases ADD COLUMN file          TEXT    NOT NULL DEFAULT '';
ALTER TABLE tenure_leases ADD COLUMN clock         TEXT    NOT NULL DEFAULT '';
ALTER TABLE tenure_leases ADD COLUMN unknown_until INTEGER NOT NULL DEFAULT 0;
