-- Records the migration above, so that `tenure migrate` finds it applied. For every database; the
-- values are filled in as literals.
INSERT INTO tenure_migrations (component, version, name, checksum, breaking)
SELECT {component}, {version}, {name}, {checksum}, {breaking}
WHERE NOT EXISTS (SELECT 1 FROM tenure_migrations WHERE component = {component} AND version = {version});
