//! What `--help` teaches, and how wrong usage is refused.

use insta::assert_snapshot;

use crate::process::Tenure;

#[test]
fn every_help_text_is_as_reviewed() {
    for command in [
        "",
        "run",
        "submissions",
        "outbox",
        "outbox install",
        "outbox enqueue",
        "outbox work",
        "outbox repair",
        "outbox stats",
        "outbox doctor",
        "controller",
        "agent",
        "node",
        "demo",
        "drain",
        "migrate",
        "status",
        "scope",
        "scope burn-epochs",
        "scope switch-lock",
    ] {
        let help = Tenure::plain().run(&format!("{command} --help")).done();
        assert!(help.contains("Exit codes:") && help.contains("Example"), "{help}");
        assert_snapshot!(format!("help {command}").trim().replace(' ', "_"), help);
    }
}

#[test]
fn help_does_not_show_the_database_of_the_environment() {
    let help = Tenure::plain().env("TENURE_DB", "postgres://me:s3cret@db/app").run("status --help");
    assert!(!help.done().contains("s3cret"));
}

#[test]
fn a_password_is_never_repeated() {
    let commands = [
        "--db mysql://me:s3cret@db/app status",
        "--db postgres://me:s3cret@db:port/app status",
        "--db postgres://me:s3cret@127.0.0.1:1/app status",
        "--db postgres://me@127.0.0.1:1/app?password=s3cret migrate",
        "--db s3cret status",
        "status postgres://me:s3cret@db/app",
        "postgres://me:s3cret@db/app status",
        "status --terms=postgres://me:s3cret@db/app",
        "scope burn-epochs --scope a --by postgres://me:s3cret@db/app",
    ];
    for command in commands {
        let ran = Tenure::plain().env("TENURE_LOG", "debug").run(command);
        assert_ne!(ran.code, 0, "{command}");
        assert!(!ran.stderr.is_empty() && !format!("{ran:?}").contains("s3cret"), "{ran:?}");
    }
    let typed = Tenure::on("host=db password=s3cret options=a:b").run("status").misused();
    assert!(
        typed.contains("sqlite:, postgres:// or sqlserver://") && !typed.contains("s3cret"),
        "{typed}"
    );
    let ran = Tenure::plain().env("TENURE_DB", "mysql://me:s3cret@db").run("status").misused();
    assert!(ran.contains("TENURE_DB") && ran.contains("mysql"), "{ran}");
    assert!(!ran.contains("s3cret"), "{ran}");
}

#[test]
fn wrong_usage_has_an_exit_code_of_its_own() {
    for command in
        ["", "nonsense", "status --terms many", "scope burn-epochs", "status --db nothing"]
    {
        assert_ne!(Tenure::plain().run(command).misused(), "", "{command}");
    }
    let refused = Tenure::plain().run("scope burn-epochs --scope a --by 0").misused();
    assert!(refused.contains("--by") && refused.contains("1.."), "{refused}");
    let refused = Tenure::plain().arg("status").arg("--scope").arg(" ").run("").misused();
    assert!(refused.contains("--scope") && refused.contains("blank"), "{refused}");
}

#[test]
fn an_unusable_log_filter_is_refused_by_name() {
    let refused = Tenure::plain().env("TENURE_LOG", "a=b=c").run("status").failed();
    assert!(refused.contains("TENURE_LOG") && refused.contains("a=b=c"), "{refused}");
}

#[test]
fn without_a_url_the_database_is_a_file_in_this_folder() {
    let folder = tempfile::tempdir().unwrap();
    Tenure::plain().in_folder(folder.path()).run("migrate").done();
    assert!(folder.path().join("tenure.db").exists());
}
