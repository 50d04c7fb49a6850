//! The file that describes an agent's ops: a table per op.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::SignedDuration;
use serde::Deserialize;

use super::{Op, Ops, command::Command};

/// How long a program may take unless its table says otherwise.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Why a file of ops was refused.
#[derive(Debug, thiserror::Error)]
pub enum OpsError {
    /// It could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is not what it should be. The line itself may hold a secret, and is not shown.
    #[error("{}, line {line}: {at}: {problem}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where.
        line: usize,
        /// Of which setting.
        at: String,
        /// Why.
        problem: String,
    },
    /// A setting cannot work.
    #[error("{}: ops.{op}.{field} {problem}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The op.
        op: String,
        /// Its setting.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A built-in op has that name.
    #[error("{}: ops.{op} is built in: use another name, or set built_in = false", path.display())]
    Taken {
        /// The file.
        path: PathBuf,
        /// The op.
        op: String,
    },
    /// There is nothing to do.
    #[error("{} describes no op: it needs a table [ops.NAME] per op", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// A setting that cannot work, and why.
type Refused = (&'static str, String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default = "yes")]
    built_in: bool,
    #[serde(default)]
    ops: BTreeMap<String, Described>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    command: Vec<String>,
    timeout: Option<SignedDuration>,
    folder: Option<PathBuf>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
}

fn yes() -> bool {
    true
}

pub(super) fn read(path: &Path) -> Result<Ops, OpsError> {
    let path = path.to_owned();
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(source) => return Err(OpsError::Read { path, source }),
    };
    let file = parse(&path, &text)?;
    let mut ops = if file.built_in { Ops::built_in() } else { Ops(BTreeMap::new()) };
    for (op, described) in file.ops {
        let command = match made(described) {
            Ok(command) => command,
            Err((field, problem)) => return Err(OpsError::Field { path, op, field, problem }),
        };
        if ops.0.contains_key(&op) {
            return Err(OpsError::Taken { path, op });
        }
        ops.0.insert(op, Op::Command(command));
    }
    if ops.0.is_empty() {
        return Err(OpsError::Empty { path });
    }
    Ok(ops)
}

fn parse(path: &Path, text: &str) -> Result<File, OpsError> {
    let refused = |at: String, error: &toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        OpsError::Parse { path: path.to_owned(), line, at, problem: error.message().to_owned() }
    };
    let reader = toml::Deserializer::parse(text)
        .map_err(|error| refused("it is no TOML".to_owned(), &error))?;
    serde_path_to_error::deserialize(reader)
        .map_err(|error| refused(error.path().to_string(), error.inner()))
}

fn made(described: Described) -> Result<Command, Refused> {
    let mut words = described.command.into_iter();
    let program = words.next().filter(|program| !program.is_empty());
    let program = program
        .ok_or_else(|| ("command", "must be a list: a program and its arguments".to_owned()))?;
    if let Some(folder) = described.folder.as_ref().filter(|folder| !folder.is_dir()) {
        return Err(("folder", format!("{} is no folder", folder.display())));
    }
    let is_no_name = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
    if let Some(name) = described.environment.keys().find(is_no_name) {
        return Err(("environment", format!("cannot hold a variable named {name:?}")));
    }
    Ok(Command {
        program,
        arguments: words.collect(),
        timeout: positive(described.timeout)?,
        folder: described.folder,
        environment: described.environment,
    })
}

fn positive(timeout: Option<SignedDuration>) -> Result<Duration, Refused> {
    match timeout.map(Duration::try_from) {
        None => Ok(TIMEOUT),
        Some(Ok(timeout)) if !timeout.is_zero() => Ok(timeout),
        Some(_) => Err(("timeout", "must be above 0".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Ops, String> {
        let file = tempfile::Builder::new().suffix(".ops.toml").tempfile().unwrap();
        fs::write(file.path(), text).unwrap();
        read(file.path()).map_err(|error| tenure_database::error::chain(&error))
    }

    #[test]
    fn a_file_adds_programs_to_what_is_built_in() {
        let resize = "[ops.resize]\ncommand = ['./resize', '--fast']\ntimeout = '1m30s'";
        let ops = parsed(resize).unwrap();
        assert_eq!(ops.names(), ["echo", "resize", "sha256", "sleep"]);
        match &ops.0["resize"] {
            Op::Command(command) => assert_eq!(command.timeout, Duration::from_secs(90)),
            Op::BuiltIn(_) => panic!("it is a program"),
        }
        assert_eq!(parsed(&format!("built_in = false\n{resize}")).unwrap().names(), ["resize"]);
        assert_eq!(parsed("").unwrap().names(), Ops::built_in().names());
    }

    #[test]
    fn every_refusal_names_the_file_the_op_and_the_setting() {
        let op = |rest: &str| format!("[ops.resize]\n{rest}");
        let refused = [
            ("built_in = false".to_owned(), "describes no op"),
            ("built_in = 3".to_owned(), "built_in"),
            (op(""), "ops.resize: missing field `command`"),
            (op("command = 'x'"), "ops.resize.command"),
            (op("command = []"), "ops.resize.command"),
            (op("command = ['']"), "ops.resize.command"),
            (op("command = ['x']\ntimeout = '0s'"), "ops.resize.timeout"),
            (op("command = ['x']\ntimeout = 'soon'"), "ops.resize.timeout"),
            (op("command = ['x']\nfolder = '/no/such'"), "ops.resize.folder /no/such"),
            (op("command = ['x']\nenvironment = { 'a=b' = 'c' }"), "ops.resize.environment"),
            (op("command = ['x']\nenvironment = { a = 1 }"), "ops.resize.environment.a"),
            (op("command = ['x']\nshell = true"), "shell"),
            ("[ops.echo]\ncommand = ['x']".to_owned(), "ops.echo is built in"),
            ("ops = [".to_owned(), "line 1"),
        ];
        for (text, words) in refused {
            let told = parsed(&text).unwrap_err();
            assert!(told.contains(words) && told.contains(".ops.toml"), "{words}: {told}");
        }
        assert!(read(Path::new("/no/such")).unwrap_err().to_string().contains("/no/such"));
    }

    #[test]
    fn a_secret_in_a_line_that_is_wrong_is_not_shown() {
        let told = parsed("[ops.a]\ncommand = ['x']\nenvironment = { KEY = 's3cret'").unwrap_err();
        assert!(told.contains("line 3") && !told.contains("s3cret"), "{told}");
    }
}
