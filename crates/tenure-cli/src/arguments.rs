//! What was typed, and what it means.

mod agent;
pub mod controller;
mod demo;
mod help;
pub mod lock;
mod node;
mod outbox;
mod submissions;

use std::{env, iter, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result, bail};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, error::ErrorKind};
use jiff::SignedDuration;
use reqwest::Url;
use tenure::{AdvisoryEnvironment, DatabaseUrl, HolderId, Scope, Takeover};
use tenure_database::UrlError;
use tenure_http::{Address, Token};
use tenure_run::Restart;

use self::{
    agent::TypedAgent, controller::TypedController, demo::TypedDemo, lock::TypedLock,
    node::TypedNode, outbox::TypedOutbox, submissions::TypedSubmissions,
};
use crate::{
    agent::Agent,
    components::{ENGINE, JOBS, SUBMISSIONS},
    contend::LockChoice,
    controller::Controller,
    demo::Demo,
    drain::{Drain, Whom},
    migrate::{Channel, Migrate, Place, Server},
    node::Node,
    outbox::Outbox,
    run::{Pace, Run},
    scope::{Change, What},
    shown::Http,
    status::Question,
    submissions::Submissions,
};

const DEFAULT_DATABASE: &str = "sqlite:tenure.db";
const CHANNEL_VARIABLE: &str = "PG_LISTEN_CHANNEL";

#[derive(Debug, Parser)]
#[command(name = "tenure", version, about = help::ABOUT, after_help = help::MAIN, max_term_width = 100)]
struct Typed {
    /// The database with the data: sqlite:FILE, postgres://USER@HOST:PORT/DATABASE or sqlserver://USER@HOST:PORT/DATABASE [default:
    /// sqlite:tenure.db]
    #[arg(long, global = true, value_name = "URL", env = "TENURE_DB", hide_env_values = true)]
    db: Option<String>,
    #[command(subcommand)]
    command: TypedCommand,
}

#[derive(Debug, Subcommand)]
enum TypedCommand {
    /// Run a program in exactly one of many places
    ///
    /// Every copy of this command contends for the scope; the one that leads runs CMD, and ends it, with all
    /// that it started, before another copy can lead. CMD finds TENURE_SCOPE, TENURE_NODE_ID, TENURE_ROLE,
    /// TENURE_EPOCH (its fencing token) and TENURE_TOKEN_FILE in its environment.
    #[command(after_help = help::RUN)]
    Run(TypedRun),
    /// Hand submissions to gateways: many instances take them, one executes
    ///
    /// Every instance serves the whole API; the one that leads executes, with retries, and records each outcome
    /// through the fence.
    #[command(after_help = help::SUBMISSIONS)]
    Submissions(TypedSubmissions),
    /// Work a payment outbox with many workers, in a Postgres database
    ///
    /// What is to be done is a row; who does it is the lease on that row; what came of it is an attempt,
    /// appended and never changed. The database's functions are the only way from one to the next.
    #[command(subcommand, after_help = help::OUTBOX)]
    Outbox(TypedOutbox),
    /// Serve jobs to agents: every node reads, the one that leads writes
    ///
    /// Clients submit jobs, agents lease and report on them; every change goes through the fence under the
    /// leader's epoch. A node that does not lead says who does. `tenure node` runs this under a supervisor.
    #[command(after_help = help::CONTROLLER)]
    Controller(TypedController),
    /// Work on a controller's jobs
    ///
    /// Takes jobs, runs each as a command with JSON on its input and its output, and hands results in until
    /// somebody accepts them, whoever leads then.
    #[command(after_help = help::AGENT)]
    Agent(TypedAgent),
    /// Run a node: a controller and an agent under one supervisor
    ///
    /// The supervisor holds the lock. While its node stands by, the controller serves reads and the agent, if
    /// there is one, works; when it leads, the agent is off and the controller writes.
    #[command(after_help = help::NODE)]
    Node(TypedNode),
    /// Watch it work: three instances, a stream of intents, the leader killed every few seconds
    ///
    /// On a database file of its own, with a gateway of its own that counts what takes effect. At the end it
    /// says what was submitted, accepted, lost and executed twice.
    #[command(after_help = help::DEMO)]
    Demo(TypedDemo),
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
    /// Make a leader hand over, and keep it out until told otherwise
    ///
    /// By --url the node that answers there, by --scope whoever leads it, through the database. The work of
    /// its term ends first; then another node takes over, at once. A drained node contends again after
    /// --undo, or by itself when nobody took over.
    #[command(after_help = help::DRAIN)]
    Drain(TypedDrain),
    /// Change a scope by hand, as an operator
    #[command(subcommand, after_help = help::SCOPE)]
    Scope(TypedScope),
}

#[derive(Debug, Args)]
struct TypedRun {
    /// What is led; copies with the same scope and database keep each other out
    #[arg(long)]
    scope: String,
    /// What decides who leads: a lease that must be renewed, Postgres's advisory lock, or etcd
    #[arg(long, value_enum, default_value_t = TypedLock::Lease)]
    lock: TypedLock,
    /// The members of the cluster, for --lock etcd
    #[arg(long, value_name = "ENDPOINTS", env = "TENURE_ETCD", value_delimiter = ',')]
    etcd: Vec<String>,
    /// How long a leader that falls silent keeps the others waiting
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    lease: Duration,
    /// Whether to sit out a leader that lost its lock without a word, or to rely on the fence
    #[arg(long, value_enum, default_value_t = TypedTakeover::Wait)]
    takeover: TypedTakeover,
    /// A command to run while not leading; it is dead before CMD starts
    #[arg(long, value_name = "COMMAND")]
    standby: Option<String>,
    /// When to run CMD again after it ended by itself; always in a new term, here or elsewhere
    #[arg(long, value_enum, default_value_t = TypedRestart::Never)]
    restart: TypedRestart,
    /// How long CMD has between SIGTERM and SIGKILL [default: a quarter of the lease, at most 2s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    term_grace: Option<Duration>,
    /// Serve health, role, metrics and a status page: PORT on loopback, or HOST:PORT
    #[arg(long, value_name = "ADDR")]
    http: Option<Address>,
    /// A file with the token that whoever drains this copy over HTTP must bring
    #[arg(long, value_name = "FILE", requires = "http")]
    token_file: Option<PathBuf>,
    /// The name of this copy [default: host, process and chance]
    #[arg(long, value_name = "ID")]
    node_id: Option<String>,
    /// Give CMD and the standby command to `sh -c`
    #[arg(long)]
    shell: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TypedTakeover {
    Wait,
    Immediate,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TypedRestart {
    Never,
    OnFailure,
    Always,
}

fn duration(typed: &str) -> Result<Duration, String> {
    let length: SignedDuration =
        typed.parse().map_err(|_| "write it like 10s, 500ms or 1m30s".to_owned())?;
    Duration::try_from(length).map_err(|_| "a time cannot be negative".to_owned())
}

#[derive(Debug, Args)]
struct TypedMigrate {
    /// Print the SQL for an empty database, and connect to none
    #[arg(long)]
    print: bool,
    /// Also grant a Postgres role what it needs to run elections and to write through the fence
    #[arg(long, value_name = "ROLE", value_parser = role)]
    grant_to: Option<String>,
    /// Also the schema of a part of the product
    #[arg(long, value_enum, value_name = "PART")]
    with: Vec<TypedPart>,
}

/// A part with a schema of its own, beside the engine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TypedPart {
    Submissions,
    Jobs,
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

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("whom").required(true).args(["url", "scope"]))]
struct TypedDrain {
    /// Where the node serves HTTP, say http://localhost:8080
    #[arg(long, value_name = "URL")]
    url: Option<Url>,
    /// The scope whose leader is to hand over
    #[arg(long, value_name = "SCOPE")]
    scope: Option<String>,
    /// Let whoever was drained the same way contend again
    #[arg(long)]
    undo: bool,
    /// A file with the node's token
    #[arg(long, value_name = "FILE", requires = "url")]
    token_file: Option<PathBuf>,
    /// How long to wait for the hand-over; 0s only asks
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    wait: Duration,
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
    Run(Box<Run>),
    Submissions(Box<Submissions>),
    Outbox(Box<Outbox>),
    Controller(Box<Controller>),
    Agent(Box<Agent>),
    Node(Box<Node>),
    Demo(Demo),
    Migrate(Migrate),
    Status(Question),
    Drain(Drain),
    Change(Change),
}

impl Meant {
    /// The code that says that this command itself failed; a program's own codes must stay its own.
    pub fn failure(&self) -> ExitCode {
        match self {
            Self::Run(_) => ExitCode::from(125),
            _ => ExitCode::FAILURE,
        }
    }
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
        let for_jobs = matches!(self.command, TypedCommand::Controller(_));
        let elsewhere = for_jobs.then(lock::database_url).flatten();
        let typed_db = self.db.as_deref().or(elsewhere.as_deref()).unwrap_or(DEFAULT_DATABASE);
        let db = database(typed_db).context("--db (or TENURE_DB)")?;
        Ok(match self.command {
            TypedCommand::Run(typed) => Meant::Run(Box::new(typed.meaning(db)?)),
            TypedCommand::Submissions(typed) => Meant::Submissions(Box::new(typed.meaning(db)?)),
            TypedCommand::Outbox(typed) => Meant::Outbox(Box::new(typed.meaning(db)?)),
            TypedCommand::Controller(typed) => Meant::Controller(Box::new(typed.meaning(db)?)),
            TypedCommand::Agent(typed) => Meant::Agent(Box::new(typed.meaning()?)),
            TypedCommand::Node(typed) => Meant::Node(Box::new(typed.meaning(self.db)?)),
            TypedCommand::Demo(typed) => Meant::Demo(typed.meaning(self.db)?),
            TypedCommand::Migrate(typed) => Meant::Migrate(typed.meaning(db)?),
            TypedCommand::Status(typed) => Meant::Status(typed.meaning(db)?),
            TypedCommand::Drain(typed) => Meant::Drain(typed.meaning(db)?),
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

impl TypedRun {
    fn meaning(self, db: DatabaseUrl) -> Result<Run> {
        let lock = match self.lock {
            TypedLock::Lease => LockChoice::Lease,
            TypedLock::Advisory => LockChoice::Advisory(Box::new(AdvisoryEnvironment::read()?)),
            TypedLock::Etcd if self.etcd.is_empty() => {
                bail!("--lock etcd needs --etcd ENDPOINTS (or TENURE_ETCD), say localhost:2379")
            }
            TypedLock::Etcd => LockChoice::Etcd(self.etcd),
        };
        let takeover = match self.takeover {
            TypedTakeover::Wait => Takeover::Wait,
            TypedTakeover::Immediate => Takeover::Immediate,
        };
        let restart = match self.restart {
            TypedRestart::Never => Restart::Never,
            TypedRestart::OnFailure => Restart::OnFailure,
            TypedRestart::Always => Restart::Always,
        };
        let pace = Pace { lease: self.lease, term_grace: self.term_grace, takeover };
        pace.timing(&lock)?;
        let token = self.token_file.as_deref().map(Token::read).transpose()?;
        let standby = self.standby.map(|typed| words(&typed, self.shell)).transpose();
        Ok(Run {
            db,
            scope: Scope::new(self.scope).context("--scope")?,
            node_id: self.node_id.map(HolderId::new).transpose().context("--node-id")?,
            lock,
            pace,
            leader: match self.shell {
                true => words(&self.command.join(" "), true)?,
                false => self.command,
            },
            standby: standby.context("--standby")?,
            restart,
            http: self.http.map(|address| Http { address, token }),
        })
    }
}

fn words(typed: &str, shell: bool) -> Result<Vec<String>> {
    if shell {
        return Ok(["sh", "-c", typed].map(str::to_owned).to_vec());
    }
    let words = shlex::split(typed).filter(|words| !words.is_empty());
    words.with_context(|| format!("{typed:?} is no command, or has an open quote"))
}

impl TypedMigrate {
    fn meaning(self, db: DatabaseUrl) -> Result<Migrate> {
        let place = match (db, self.grant_to) {
            (DatabaseUrl::Sqlite(_), Some(role)) => {
                bail!("--grant-to {role}: SQLite has no roles; the file's permissions decide there")
            }
            (DatabaseUrl::Sqlite(data), None) => Place::Sqlite { data },
            (DatabaseUrl::SqlServer(url), grant_to) => Place::SqlServer { url, grant_to },
            (DatabaseUrl::Postgres(url), grant_to) => {
                Place::Postgres(Box::new(Server { url: *url, grant_to, channel: channel()? }))
            }
        };
        let part = |part: &TypedPart| match part {
            TypedPart::Submissions => SUBMISSIONS,
            TypedPart::Jobs => JOBS,
        };
        let components = iter::once(ENGINE).chain(self.with.iter().map(part)).collect();
        Ok(Migrate { place, components, print: self.print })
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

impl TypedDrain {
    fn meaning(self, db: DatabaseUrl) -> Result<Drain> {
        let whom = match (self.url, self.scope) {
            (Some(url), _) => {
                if !["http", "https"].contains(&url.scheme()) || !url.has_host() {
                    bail!("--url must be http://HOST:PORT or https://HOST:PORT");
                }
                Whom::Url { url, token_file: self.token_file }
            }
            (None, scope) => {
                let scope = Scope::new(scope.unwrap_or_default()).context("--scope")?;
                Whom::Scope { db, scope }
            }
        };
        Ok(Drain { whom, undo: self.undo, wait: self.wait })
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
