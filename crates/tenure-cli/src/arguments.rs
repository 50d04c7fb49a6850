//! What was typed, and what it means.

mod help;

use std::env;

use anyhow::{Context, Result, bail};
use clap::{Args, CommandFactory, Parser, Subcommand, error::ErrorKind};
use tenure::{DatabaseUrl, Scope};
use tenure_database::UrlError;

use crate::{
    migrate::{Channel, Migrate, Place, Server},
    scope::{Change, What},
    status::Question,
};

const CHANNEL_VARIABLE: &str = "PG_LISTEN_CHANNEL";

#[derive(Debug, Parser)]
#[command(name = "tenure", version, about = help::ABOUT, after_help = help::MAIN, max_term_width = 100)]
struct Typed {
    /// The database with the data: sqlite:FILE or postgres://USER@HOST:PORT/DATABASE
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "TENURE_DB",
        hide_env_values = true,
        default_value = "sqlite:tenure.db"
    )]
    db: String,
    #[command(subcommand)]
    command: TypedCommand,
}

#[derive(Debug, Subcommand)]
enum TypedCommand {
    /// Bring the database's schema to what this binary needs
    ///
    /// It goes forward only, applies what is missing under a lock, so that several may run at once, and
    /// can be repeated at will. After a breaking migration by a newer binary this one refuses to run.
    #[command(after_help = help::MIGRATE)]
    Migrate(TypedMigrate),
    /// Show who leads each scope, and its last terms
    ///
    /// The time left of a lease, and since the last heartbeat of an advisory lock's holder, are by the
    /// database's clock. EPOCH is the holder's term; FENCE is the highest term that may write.
    #[command(after_help = help::STATUS)]
    Status(TypedStatus),
    /// Change a scope by hand, as an operator
    #[command(subcommand, after_help = help::SCOPE)]
    Scope(TypedScope),
}

#[derive(Debug, Args)]
struct TypedMigrate {
    /// Print the SQL for an empty database, and connect to none
    #[arg(long)]
    print: bool,
    /// Also grant a Postgres role what it needs to run elections and to write through the fence
    #[arg(long, value_name = "ROLE", value_parser = role)]
    grant_to: Option<String>,
}

fn role(name: &str) -> Result<String, &'static str> {
    match name.is_empty() || name.contains(char::is_control) {
        true => Err("a role has a name, without control characters"),
        false => Ok(name.to_owned()),
    }
}

#[derive(Debug, Args)]
struct TypedStatus {
    /// Only this scope
    #[arg(long, value_name = "SCOPE")]
    scope: Option<String>,
    /// How many terms of each scope
    #[arg(long, value_name = "N", default_value_t = 5)]
    terms: u16,
    /// Print JSON with stable field names instead of tables; times are RFC 3339 UTC
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum TypedScope {
    /// Move the fence of a scope ahead, after a restore or an unclean failover
    ///
    /// No term of a history that was lost can ever write again. Whoever leads now is refused at its next
    /// write; the next term gets a number above the fence.
    #[command(after_help = help::BURN_EPOCHS)]
    BurnEpochs {
        /// The scope
        #[arg(long)]
        scope: String,
        /// How many epochs: more than the lost history can have had
        #[arg(
            long,
            value_name = "N",
            default_value_t = 1000,
            value_parser = clap::value_parser!(i64).range(1..=1_000_000_000)
        )]
        by: i64,
    },
    /// Let the next winner of a scope bring another kind of lock
    ///
    /// Or another lock of the same kind, say in another table. Stop every node of the scope first: nodes
    /// with different locks do not keep each other out, and only the fence tells them apart.
    #[command(after_help = help::SWITCH_LOCK)]
    SwitchLock {
        /// The scope
        #[arg(long)]
        scope: String,
    },
}

/// What the arguments ask for, checked.
#[derive(Debug)]
pub enum Meant {
    Migrate(Migrate),
    Status(Question),
    Change(Change),
}

/// Reads the arguments; wrong usage ends the process with code 2, `--help` and `--version` with 0.
pub fn read() -> Meant {
    let meant = Typed::try_parse().and_then(|typed| {
        typed.meaning().map_err(|error| {
            Typed::command().error(ErrorKind::ValueValidation, format!("{error:#}"))
        })
    });
    meant.unwrap_or_else(|error| refuse(&error))
}

/// A mistyped argument is repeated in the message; a URL among them may hold a password.
fn refuse(error: &clap::Error) -> ! {
    let arguments = env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let told = error.render().to_string();
    let safe = arguments.fold(told.clone(), |told, argument| without_url(&told, &argument));
    if safe == told {
        error.exit();
    }
    eprint!("{safe}");
    std::process::exit(error.exit_code())
}

fn without_url(told: &str, argument: &str) -> String {
    match argument.find("://") {
        Some(at) => told.replace(&argument[at..], "://…"),
        None => told.to_owned(),
    }
}

impl Typed {
    fn meaning(self) -> Result<Meant> {
        let db = database(&self.db).context("--db (or TENURE_DB)")?;
        Ok(match self.command {
            TypedCommand::Migrate(typed) => Meant::Migrate(typed.meaning(db)?),
            TypedCommand::Status(typed) => Meant::Status(typed.meaning(db)?),
            TypedCommand::Scope(typed) => Meant::Change(typed.meaning(db)?),
        })
    }
}

fn database(typed: &str) -> Result<DatabaseUrl, UrlError> {
    let in_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    typed.parse().map_err(|error| match error {
        // Where this is no URL at all, a password may stand before the first colon.
        UrlError::Scheme { scheme } if !scheme.chars().all(in_scheme) => UrlError::NotAUrl,
        error => error,
    })
}

impl TypedMigrate {
    fn meaning(self, db: DatabaseUrl) -> Result<Migrate> {
        let place = match (db, self.grant_to) {
            (DatabaseUrl::Sqlite(_), Some(role)) => {
                bail!("--grant-to {role}: SQLite has no roles; the file's permissions decide there")
            }
            (DatabaseUrl::Sqlite(data), None) => Place::Sqlite { data },
            (DatabaseUrl::Postgres(url), grant_to) => {
                Place::Postgres(Box::new(Server { url: *url, grant_to, channel: channel()? }))
            }
        };
        Ok(Migrate { place, print: self.print })
    }
}

fn channel() -> Result<Option<Channel>> {
    match env::var(CHANNEL_VARIABLE) {
        Ok(name) if !name.is_empty() => Channel::named(&name).map(Some).context(CHANNEL_VARIABLE),
        Ok(_) | Err(env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(error).context(CHANNEL_VARIABLE),
    }
}

impl TypedStatus {
    fn meaning(self, db: DatabaseUrl) -> Result<Question> {
        let scope = self.scope.map(Scope::new).transpose().context("--scope")?;
        Ok(Question { db, scope, terms: self.terms.into(), json: self.json })
    }
}

impl TypedScope {
    fn meaning(self, db: DatabaseUrl) -> Result<Change> {
        let (scope, what) = match self {
            Self::BurnEpochs { scope, by } => (scope, What::BurnEpochs { by }),
            Self::SwitchLock { scope } => (scope, What::SwitchLock),
        };
        Ok(Change { db, scope: Scope::new(scope).context("--scope")?, what })
    }
}
