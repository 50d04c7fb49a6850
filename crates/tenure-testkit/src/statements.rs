//! Statement files of SQL Server, held against the code that sends them and against their twins on Postgres.

use std::{collections::BTreeSet, fs, path::Path};

use tenure_database::sqlserver::{Batch, batches};

/// Every file below `sql/sqlserver` of a crate is one batch and has its twin on Postgres under the same name; and those
/// that code sends (all but `schema`, `fragment` and the single files at the top) bind what they explain.
///
/// `alone` are files without a twin.
///
/// # Panics
/// When one does not.
pub fn check(crate_folder: &str, sent: &[Batch], alone: &[&str]) {
    let sql = Path::new(crate_folder).join("sql");
    let (ours, theirs) = (names(&sql.join("sqlserver")), names(&sql.join("postgres")));
    for name in &ours {
        let text = fs::read_to_string(sql.join("sqlserver").join(format!("{name}.sql")));
        let text = text.expect("a file");
        assert_eq!(batches(&text).count(), 1, "{name} is one batch");
        let has_twin = theirs.contains(name) || alone.contains(&name.as_str());
        assert!(has_twin, "{name} has no twin on Postgres");
        assert!(
            name.starts_with("fragment/server") || text.starts_with("-- "),
            "{name} says nothing"
        );
        assert!(!text.to_ascii_uppercase().contains("MERGE "), "{name} merges");
    }
    let is_sent = |name: &&String| {
        name.contains('/') && !name.starts_with("schema/") && !name.starts_with("fragment/")
    };
    let expected: BTreeSet<_> = ours.iter().filter(is_sent).cloned().collect();
    let known: BTreeSet<_> = sent.iter().map(|batch| batch.name.to_owned()).collect();
    let missing: Vec<_> = expected.difference(&known).collect();
    assert!(missing.is_empty(), "nobody sends {missing:?}");
    for batch in sent {
        let counted = (batch.highest_parameter(), batch.highest_explained());
        assert_eq!(
            counted,
            (batch.parameters, batch.parameters),
            "{} binds what it explains",
            batch.name
        );
    }
}

/// The files below a folder, without their endings.
fn names(folder: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            names.extend(self::names(&path).into_iter().map(|below| format!("{name}/{below}")));
        } else {
            names.insert(name);
        }
    }
    names
}
