-- Records a migration in the transaction that applied it.
-- ?1 text: component, ?2 integer: version, ?3 text: name, ?4 text: checksum, ?5 boolean: breaking.
INSERT INTO tenure_migrations (component, version, name, checksum, breaking)
VALUES (?1, ?2, ?3, ?4, ?5)
