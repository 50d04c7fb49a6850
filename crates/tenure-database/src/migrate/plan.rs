//! What is to be applied, decided without a database.

use sha2::{Digest, Sha256};

use crate::DatabaseError;

/// One step of a component's schema.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Counts from 1 without gaps.
    pub version: i32,
    /// What it brings.
    pub name: &'static str,
    /// One or more statements.
    pub sql: &'static str,
    /// Whether a binary that does not know it must not run any more.
    pub breaking: bool,
}

impl Migration {
    /// The first 16 hexadecimal digits of SHA-256 of the SQL.
    #[must_use]
    pub fn checksum(&self) -> String {
        let digest = Sha256::digest(self.sql.as_bytes());
        digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A migration that a database has recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Its number.
    pub version: i32,
    /// Its name.
    pub name: String,
    /// Its checksum.
    pub checksum: String,
    /// Whether it was breaking.
    pub breaking: bool,
}

/// Where a database stands against what this binary knows.
#[derive(Clone, Debug)]
#[must_use]
pub enum Standing {
    /// Nothing to do.
    Current,
    /// These are missing, in order.
    Behind(Vec<Migration>),
    /// A newer binary has been here, and this one may still run.
    Ahead,
}

/// Compares what is recorded with what is known.
pub(super) fn stand(
    component: &'static str,
    known: &[Migration],
    applied: &[Applied],
) -> Result<Standing, MigrateError> {
    for recorded in applied {
        match known.iter().find(|migration| migration.version == recorded.version) {
            Some(migration) if migration.checksum() != recorded.checksum => {
                return Err(MigrateError::Changed { component, version: recorded.version });
            }
            None if recorded.breaking => {
                return Err(MigrateError::TooOld {
                    component,
                    version: recorded.version,
                    name: recorded.name.clone(),
                });
            }
            _ => {}
        }
    }
    let missing: Vec<_> = known
        .iter()
        .filter(|migration| applied.iter().all(|recorded| recorded.version != migration.version))
        .copied()
        .collect();
    Ok(match missing.is_empty() {
        false => Standing::Behind(missing),
        true if applied.len() > known.len() => Standing::Ahead,
        true => Standing::Current,
    })
}

/// Why a schema cannot be brought to where this binary needs it.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// A newer, breaking migration has been applied.
    #[error(
        "this binary is too old for the database: migration {version} of {component} ({name}) is \
         breaking and unknown here; install a newer tenure"
    )]
    TooOld {
        /// Which schema.
        component: &'static str,
        /// The number of the unknown migration.
        version: i32,
        /// Its name.
        name: String,
    },
    /// A recorded migration differs from the one known here.
    #[error("migration {version} of {component} was changed after it had been applied")]
    Changed {
        /// Which schema.
        component: &'static str,
        /// The number of the migration.
        version: i32,
    },
    /// The schema is missing or older, and was not to be changed.
    #[error("the schema of {component} is missing or older than this binary: run `tenure migrate`")]
    Needed {
        /// Which schema.
        component: &'static str,
    },
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl From<tokio_postgres::Error> for MigrateError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

impl From<tiberius::error::Error> for MigrateError {
    fn from(error: tiberius::error::Error) -> Self {
        Self::Database(error.into())
    }
}

impl From<rusqlite::Error> for MigrateError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Migration; 2] = [
        Migration { version: 1, name: "one", sql: "a", breaking: true },
        Migration { version: 2, name: "two", sql: "b", breaking: false },
    ];

    fn recorded(version: i32, breaking: bool) -> Applied {
        let known = KNOWN.iter().find(|migration| migration.version == version);
        let checksum = known.map_or_else(|| "?".to_owned(), Migration::checksum);
        Applied { version, name: format!("m{version}"), checksum, breaking }
    }

    #[test]
    fn what_is_missing_is_applied_in_order() {
        let standing = stand("engine", &KNOWN, &[recorded(1, true)]).unwrap();
        assert!(matches!(standing, Standing::Behind(missing) if missing[0].version == 2));
    }

    #[test]
    fn a_newer_harmless_migration_is_lived_with_and_a_breaking_one_is_not() {
        let both = [recorded(1, true), recorded(2, false)];
        let with = |newer: Applied| stand("engine", &KNOWN, &[both.as_slice(), &[newer]].concat());
        assert!(matches!(with(recorded(3, false)), Ok(Standing::Ahead)));
        let refused = with(recorded(3, true)).unwrap_err().to_string();
        assert!(refused.contains("too old") && refused.contains("m3"), "{refused}");
    }

    #[test]
    fn a_changed_migration_is_refused() {
        let mut changed = recorded(1, true);
        changed.checksum = "0".repeat(16);
        assert!(matches!(stand("engine", &KNOWN, &[changed]), Err(MigrateError::Changed { .. })));
    }
}
