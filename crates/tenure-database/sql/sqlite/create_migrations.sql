-- What has been applied, by component.
CREATE TABLE IF NOT EXISTS tenure_migrations (
    component TEXT    NOT NULL,
    version   INTEGER NOT NULL,
    name      TEXT    NOT NULL,
    checksum  TEXT    NOT NULL,
    breaking  INTEGER NOT NULL,
    PRIMARY KEY (component, version)
) STRICT
