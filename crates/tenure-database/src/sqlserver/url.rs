//! What a SQL Server URL, or an ADO connection string, says.

use std::{env, fmt, fs, str::FromStr};

use percent_encoding::percent_decode_str;
use tiberius::{AuthMethod, Config, EncryptionLevel};
use url::Url;

use crate::UrlError;

/// Where the password is looked for that neither the URL nor a file has.
pub const PASSWORD_VARIABLE: &str = "TENURE_DB_PASSWORD";
const PORT: u16 = 1433;

/// A SQL Server, database and login; printed without the password.
///
/// `sqlserver://user:password@host:1433/database`, and after a question mark:
///
/// | | |
/// | --- | --- |
/// | `encrypt` | `true` (the default), `login` (only the login), `false` (nothing: for a network you trust) |
/// | `trust_certificate` | `true`: any certificate will do. Default: it must be one that the system trusts |
/// | `ca` | a file with certificates that are trusted too |
/// | `password_file` | a file with the password |
///
/// Without a password in the URL or a file, `TENURE_DB_PASSWORD` has it.
#[derive(Clone)]
pub struct SqlServerUrl {
    config: Config,
    shown: String,
}

/// Whether a text is an ADO connection string: `server=tcp:host,1433;database=…`.
#[must_use]
pub fn is_ado(text: &str) -> bool {
    let name = text.split('=').next().unwrap_or_default().trim().to_ascii_lowercase();
    text.contains('=') && matches!(name.as_str(), "server" | "data source")
}

impl FromStr for SqlServerUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let (mut config, shown) = match is_ado(text) {
            true => of_ado(text)?,
            false => of_url(text)?,
        };
        config.application_name("tenure");
        // Whoever calls has a deadline, and it is shorter.
        config.handshake_timeout(None);
        config.command_timeout(None);
        Ok(Self { config, shown })
    }
}

impl SqlServerUrl {
    /// The driver's settings, password included.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The same server and login, another database.
    #[must_use]
    pub fn database(&self, name: &str) -> Self {
        let mut config = self.config.clone();
        config.database(name);
        let place = self.shown.rsplit_once('/').map_or("", |(place, _)| place);
        Self { config, shown: format!("{place}/{name}") }
    }
}

fn refused(why: impl Into<String>) -> UrlError {
    UrlError::SqlServer { why: why.into() }
}

/// What the parameters of a URL ask for.
#[derive(Default)]
struct Asked {
    encryption: Option<EncryptionLevel>,
    trusts_any: bool,
    ca: Option<String>,
    password_file: Option<String>,
}

impl Asked {
    fn read(url: &Url) -> Result<Self, UrlError> {
        let mut asked = Self::default();
        for (name, value) in url.query_pairs() {
            match &*name {
                "encrypt" => asked.encryption = Some(encryption(&value)?),
                "trust_certificate" => asked.trusts_any = truth("trust_certificate", &value)?,
                "ca" => asked.ca = Some(value.into_owned()),
                "password_file" => asked.password_file = Some(value.into_owned()),
                other => {
                    return Err(refused(format!(
                        "there is no parameter {other} (encrypt, trust_certificate, ca and password_file are)"
                    )));
                }
            }
        }
        if asked.trusts_any && asked.ca.is_some() {
            return Err(refused("trust_certificate=true and ca=FILE exclude each other"));
        }
        Ok(asked)
    }

    fn password(&self) -> Result<Option<String>, UrlError> {
        if let Some(path) = &self.password_file {
            let read = fs::read_to_string(path);
            let unreadable = |source| UrlError::PasswordFile { path: path.clone(), source };
            return read
                .map(|text| Some(text.trim_end_matches(['\r', '\n']).to_owned()))
                .map_err(unreadable);
        }
        Ok(env::var(PASSWORD_VARIABLE).ok())
    }
}

fn encryption(value: &str) -> Result<EncryptionLevel, UrlError> {
    match value {
        "true" => Ok(EncryptionLevel::Required),
        "login" => Ok(EncryptionLevel::Off),
        "false" => Ok(EncryptionLevel::NotSupported),
        _ => Err(refused("encrypt is true, login or false")),
    }
}

fn truth(name: &str, value: &str) -> Result<bool, UrlError> {
    value.parse().map_err(|_| refused(format!("{name} is true or false")))
}

fn of_url(text: &str) -> Result<(Config, String), UrlError> {
    if text.contains('\\') {
        return Err(refused("a named instance is reached by its port: sqlserver://host:port/…"));
    }
    // What the parser says never repeats the text.
    let url = Url::parse(text).map_err(|error| refused(error.to_string()))?;
    let asked = Asked::read(&url)?;
    let host = url.host_str().filter(|host| !host.is_empty());
    let host = host.ok_or_else(|| refused("it names no host"))?;
    let (port, user) = (url.port().unwrap_or(PORT), decoded(url.username())?);
    if user.is_empty() {
        return Err(refused("it names no user"));
    }
    let password = match url.password() {
        Some(password) => Some(decoded(password)?),
        None => asked.password()?,
    };
    let database = decoded(url.path().trim_start_matches('/'))?;
    if database.is_empty() {
        return Err(refused("it names no database"));
    }
    let mut config = Config::new();
    config.host(decoded(host)?.trim_matches(['[', ']']));
    config.port(port);
    config.database(&database);
    config.encryption(asked.encryption.unwrap_or(EncryptionLevel::Required));
    config.authentication(AuthMethod::sql_server(&user, password.unwrap_or_default()));
    match &asked.ca {
        Some(path) => config.trust_cert_ca(path),
        None if asked.trusts_any => config.trust_cert(),
        None => {}
    }
    Ok((config, format!("sqlserver://{user}@{host}:{port}/{database}")))
}

fn decoded(text: &str) -> Result<String, UrlError> {
    let text = percent_decode_str(text).decode_utf8();
    text.map(Into::into).map_err(|_| refused("it is not UTF-8"))
}

/// What is shown of it is read here; the driver does not tell.
fn of_ado(text: &str) -> Result<(Config, String), UrlError> {
    // What the driver says may repeat a value.
    let unreadable = |_| refused("the connection string cannot be read");
    let pairs = ado_pairs(text);
    let named = |names: &[&str]| {
        let found = pairs.iter().find(|(name, _)| names.contains(&name.as_str()));
        found.map(|(_, value)| *value)
    };
    let user = named(&["user id", "uid", "user", "username"]);
    let user = user.ok_or_else(|| refused("it names no user"))?;
    let database = named(&["database", "initial catalog"]);
    let database = database.ok_or_else(|| refused("it names no database"))?;
    let has_password = named(&["password", "pwd"]).is_some();
    let mut config = Config::from_ado_string(text).map_err(unreadable)?;
    if !has_password && let Ok(password) = env::var(PASSWORD_VARIABLE) {
        config.authentication(AuthMethod::sql_server(user, password));
    }
    let place = config.get_addr();
    Ok((config, format!("sqlserver://{user}@{place}/{database}")))
}

/// The names, in lower case, and their values without quotes; a semicolon in quotes separates nothing.
fn ado_pairs(text: &str) -> Vec<(String, &str)> {
    let (mut closes, mut closed, mut before) = (None, None, ' ');
    let separates = |c: char| {
        let just_closed = closed.take();
        match closes {
            Some(end) if c == end => (closes, closed) = (None, Some(end)),
            Some(_) => {}
            // A quote that is doubled is one, and the value goes on.
            None if just_closed == Some(c) => closes = just_closed,
            None if before == '=' && matches!(c, '\'' | '"') => closes = Some(c),
            None if before == '=' && c == '{' => closes = Some('}'),
            None => {}
        }
        if !c.is_whitespace() {
            before = c;
        }
        c == ';' && closes.is_none()
    };
    let pairs = text.split(separates).filter_map(|pair| pair.split_once('='));
    let quotes = ['\'', '"', '{', '}'];
    pairs
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().trim_matches(quotes)))
        .collect()
}

impl fmt::Display for SqlServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for SqlServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqlServerUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> SqlServerUrl {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn refusal(text: &str) -> String {
        text.parse::<SqlServerUrl>().unwrap_err().to_string()
    }

    #[test]
    fn a_url_is_shown_without_its_password_and_with_its_port() {
        let plain = url("sqlserver://sa:p%40ss%2Fw@db.example/app");
        assert_eq!(plain.to_string(), "sqlserver://sa@db.example:1433/app");
        assert_eq!(plain.config().get_addr(), "db.example:1433");
        assert!(!format!("{plain:?}").contains("p@ss"));
        assert_eq!(plain.database("other").to_string(), "sqlserver://sa@db.example:1433/other");
        let ado = url("Server=tcp:db,1444;User Id=sa;Password=s3cret;Database=app;Encrypt=true");
        assert_eq!(ado.to_string(), "sqlserver://sa@db:1444/app");
        assert!(!format!("{ado:?}").contains("s3cret"));
        for password in
            ["'a;user=s3cret'", "\"a'';database=s3cret\"", "{s3cret;uid=s3cret}", "it's;"]
        {
            let ado = url(&format!("server=db;password={password};user='sa';database=app"));
            assert_eq!(ado.to_string(), "sqlserver://sa@db:1433/app", "{password}");
        }
    }

    #[test]
    fn encryption_is_on_unless_it_is_switched_off_and_certificates_are_checked() {
        let shown = |text: &str| format!("{:?}", url(text).config());
        let usual = shown("sqlserver://sa:x@db/app");
        assert!(
            usual.contains("encryption: Required") && usual.contains("bypass: false"),
            "{usual}"
        );
        for (asked, level) in [("true", "Required"), ("login", "Off"), ("false", "NotSupported")] {
            let config = shown(&format!("sqlserver://sa:x@db/app?encrypt={asked}"));
            assert!(config.contains(&format!("encryption: {level}")), "{asked}: {config}");
        }
        assert!(shown("sqlserver://sa:x@db/app?trust_certificate=true").contains("bypass: true"));
        assert!(shown("sqlserver://sa:x@db/app?ca=/etc/ca.pem").contains("/etc/ca.pem"));
    }

    #[test]
    fn the_drivers_own_long_timeouts_are_off() {
        for text in ["sqlserver://sa:x@db/app", "server=db;user=sa;password=x;database=app"] {
            let url = url(text);
            let config = url.config();
            assert_eq!(
                (config.get_handshake_timeout(), config.get_command_timeout()),
                (None, None)
            );
        }
    }

    #[test]
    fn the_password_may_be_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        fs::write(&path, "s3cret\n").unwrap();
        let url = url(&format!("sqlserver://sa@db/app?password_file={}", path.display()));
        assert!(!format!("{url:?}{url}").contains("s3cret"));
        let missing = refusal("sqlserver://sa@db/app?password_file=/no/such");
        assert!(missing.contains("password_file=/no/such"), "{missing}");
    }

    #[test]
    fn what_is_wrong_is_said_and_nothing_is_repeated() {
        let wrong = [
            ("sqlserver://sa:s3cret@db", "no database"),
            ("sqlserver://:s3cret@db/app", "no user"),
            ("sqlserver://sa:s3cret@db/app?encrypt=s3cret", "true, login or false"),
            ("sqlserver://sa:s3cret@db/app?trust_certificate=1", "true or false"),
            ("sqlserver://sa:s3cret@db/app?timeout=3", "timeout"),
            ("sqlserver://sa:s3cret@db/app?ca=/x&trust_certificate=true", "exclude"),
            ("sqlserver://sa:s3cret@db\\one/app", "port"),
            ("sqlserver://sa:s3cret@db:port/app", "port"),
            ("server=db;password=s3cret;database=app", "no user"),
            ("server=db;user=sa;password=s3cret", "no database"),
            ("server=db,s3cret;user=sa;password=s3cret;database=app", "cannot be read"),
        ];
        for (text, told) in wrong {
            let refusal = refusal(text);
            assert!(refusal.contains(told) && !refusal.contains("s3cret"), "{text}: {refusal}");
        }
    }
}
