//! A database named by a URL, as given with `--db` or `TENURE_DB`.

use std::{fmt, path::PathBuf, str::FromStr};

use crate::{
    postgres::PostgresUrl,
    sqlserver::{self, SqlServerUrl},
};

/// Where the data is.
#[derive(Clone, Debug)]
pub enum DatabaseUrl {
    /// A file on this machine: `sqlite:tenure.db`.
    Sqlite(PathBuf),
    /// A server: `postgres://user@host:5432/database`.
    Postgres(Box<PostgresUrl>),
    /// A server: `sqlserver://user@host:1433/database`, or an ADO connection string.
    SqlServer(Box<SqlServerUrl>),
}

impl FromStr for DatabaseUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if sqlserver::is_ado(text) {
            return text.parse().map(|url| Self::SqlServer(Box::new(url)));
        }
        match text.split_once(':') {
            Some(("sqlserver", _)) => text.parse().map(|url| Self::SqlServer(Box::new(url))),
            Some(("sqlite", path)) => sqlite_path(path).map(Self::Sqlite),
            Some(("postgres" | "postgresql", _)) => {
                text.parse().map(|url| Self::Postgres(Box::new(url)))
            }
            Some((scheme, _)) if scheme.chars().all(|c| c.is_ascii_alphanumeric()) => {
                Err(UrlError::Scheme { scheme: scheme.to_owned() })
            }
            // What stands before a colon may be anything, a password too.
            _ => Err(UrlError::NotAUrl),
        }
    }
}

fn sqlite_path(path: &str) -> Result<PathBuf, UrlError> {
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() || path == ":memory:" {
        return Err(UrlError::NoFile);
    }
    Ok(path.into())
}

/// Without the password.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => url.fmt(f),
            Self::SqlServer(url) => url.fmt(f),
        }
    }
}

/// A database URL that cannot be used. None of its messages repeats the URL, which may hold a password.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    /// No scheme at all.
    #[error("a database URL begins with sqlite:, postgres:// or sqlserver://")]
    NotAUrl,
    /// A scheme that nobody here speaks.
    #[error("no database is known by {scheme}: (sqlite:, postgres:// and sqlserver:// are)")]
    Scheme {
        /// What stood before the colon.
        scheme: String,
    },
    /// SQLite without a file: several processes must share it.
    #[error("sqlite: needs the path of a file, as in sqlite:tenure.db")]
    NoFile,
    /// The rest of a Postgres URL is wrong.
    #[error("this Postgres URL cannot be used")]
    Postgres(#[source] tokio_postgres::Error),
    /// The rest of a SQL Server URL or connection string is wrong.
    #[error("this SQL Server URL cannot be used: {why}")]
    SqlServer {
        /// What, without repeating it.
        why: String,
    },
    /// The file with the password cannot be read.
    #[error("cannot read the password of password_file={path}")]
    PasswordFile {
        /// As given in the URL.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file with the trusted certificates cannot be used.
    #[error("cannot read the certificates of sslrootcert={path}")]
    RootCertificates {
        /// As given in the URL.
        path: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        url.parse::<DatabaseUrl>().unwrap().to_string()
    }

    #[test]
    fn urls_are_shown_without_their_passwords() {
        assert_eq!(shown("postgres://me:s3cret@db:5433/app"), "postgres://me@db:5433/app");
        assert_eq!(
            shown("postgresql://me@db/app?password=s3cret&connect_timeout=3"),
            "postgres://me@db:5432/app"
        );
        let url: DatabaseUrl = "postgres://me:s3cret@db/app".parse().unwrap();
        assert!(!format!("{url:?}").contains("s3cret"));
        assert_eq!(shown("sqlserver://me:s3cret@db/app"), "sqlserver://me@db:1433/app");
    }

    #[test]
    fn sqlite_is_a_file() {
        assert_eq!(shown("sqlite:tenure.db"), "sqlite:tenure.db");
        assert_eq!(shown("sqlite:///var/lib/tenure.db"), "sqlite:/var/lib/tenure.db");
        assert!("sqlite:".parse::<DatabaseUrl>().is_err());
        assert!("sqlite::memory:".parse::<DatabaseUrl>().is_err());
    }

    #[test]
    fn an_unusable_url_is_refused_without_repeating_it() {
        let refused = |url: &str| {
            let error = url.parse::<DatabaseUrl>().unwrap_err();
            crate::error::chain(&error)
        };
        assert!(refused("mysql://me:s3cret@db").contains("mysql"));
        for url in [
            "mysql://me:s3cret@db",
            "s3cret",
            "postgres://me:s3cret@db:port/x",
            "host=db password=s3cret options=a:b",
            "sqlserver://me:s3cret@db:port/app",
            "server=tcp:db,port;password=s3cret",
        ] {
            assert!(!refused(url).contains("s3cret"), "{}", refused(url));
        }
    }
}
