//! Running the binary as a person or a script does.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::Value;

/// The binary, about to be run on a database.
pub struct Tenure {
    command: Command,
}

/// What a run of it left.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Tenure {
    /// On the database of this URL.
    pub fn on(db: &str) -> Self {
        Self::plain().arg("--db").arg(db)
    }

    /// On a data file.
    pub fn on_file(data: &Path) -> Self {
        Self::on(&format!("sqlite:{}", data.display()))
    }

    /// With nothing said about the database.
    pub fn plain() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        for variable in ["TENURE_DB", "TENURE_LOG", "PG_LISTEN_CHANNEL", "COLUMNS"] {
            command.env_remove(variable);
        }
        Self { command }
    }

    pub fn arg(mut self, argument: &str) -> Self {
        self.command.arg(argument);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn in_folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Starts it with further arguments, separated by spaces.
    pub fn spawn(mut self, arguments: &str) -> Child {
        self.command.args(arguments.split_whitespace());
        self.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.command.spawn().expect("the binary starts")
    }

    /// Runs it to its end.
    pub fn run(self, arguments: &str) -> Ran {
        Ran::of(self.spawn(arguments))
    }
}

impl Ran {
    /// Waits for a process that was spawned.
    pub fn of(child: Child) -> Self {
        let output = child.wait_with_output().expect("the binary ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Self {
            code: output.status.code().expect("an exit code"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// What it printed, when all went well and without a word on stderr.
    #[track_caller]
    pub fn done(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{self:?}");
        self.stdout
    }

    /// What it complained, when it failed and printed nothing else.
    #[track_caller]
    pub fn failed(self) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (1, ""), "{self:?}");
        assert!(self.stderr.starts_with("error: "), "{self:?}");
        assert_eq!(self.stderr.matches("error: ").count(), 1, "{self:?}");
        self.stderr
    }

    /// What it complained, when it was used in a wrong way.
    #[track_caller]
    pub fn misused(self) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (2, ""), "{self:?}");
        self.stderr
    }
}

/// Puts one value in the place of every time and duration.
pub fn without_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let is_time = name.ends_with("_ms") || name.ends_with("_at");
                match is_time && !value.is_null() {
                    true => *value = Value::String(format!("<{}>", name.replace("_ms", " in ms"))),
                    false => without_times(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(without_times),
        _ => {}
    }
}
