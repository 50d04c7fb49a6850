-- Records the migration above, so that `tenure migrate` finds it applied. For every database; the
-- values are filled in as literals.
INSERT INTO tenure_migrations (component, version, name, checksum, breaking)
VALUES ({component}, {version}, {name}, {checksum}, {breaking});
