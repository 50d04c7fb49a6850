//! What the children of all copies recorded, and what must hold of it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use tenure_database::BootInstant;

/// The children of one term: whose they were, and from when to when one of them lived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lived {
    pub copy: String,
    pub processes: usize,
    pub first: BootInstant,
    pub last: BootInstant,
}

/// The folder in which they write.
pub struct Records(pub PathBuf);

impl Records {
    /// The terms in which a child has lived so far.
    pub fn terms(&self) -> BTreeMap<i64, Lived> {
        let mut terms: BTreeMap<i64, Lived> = BTreeMap::new();
        for entry in fs::read_dir(&self.0).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            let Some(name) = name.strip_prefix("beats-") else { continue };
            let Some((first, last)) = span(&entry.path()) else { continue };
            let mut parts = name.split('-');
            let epoch = parts.next().unwrap().parse().unwrap();
            let copy = parts.next().unwrap();
            let lived = terms.entry(epoch).or_insert(Lived {
                copy: copy.to_owned(),
                processes: 0,
                first,
                last,
            });
            assert_eq!(lived.copy, copy, "two copies ran a child in term {epoch}");
            lived.processes += 1;
            lived.first = lived.first.min(first);
            lived.last = lived.last.max(last);
        }
        terms
    }

    /// The copy whose child records at this moment or later.
    pub fn acting_since(&self, moment: BootInstant) -> Option<String> {
        let (_, lived) = self.terms().pop_last()?;
        (lived.last >= moment).then_some(lived.copy)
    }

    /// No two children lived together, and no child ran twice in one term.
    pub fn assert_in_turn(&self) {
        let terms = self.terms();
        for ((earlier, before), (later, after)) in terms.iter().zip(terms.iter().skip(1)) {
            let overlap = before.last.since(after.first);
            assert!(
                before.last < after.first,
                "term {earlier} of {} lived {overlap:?} into term {later} of {}",
                before.copy,
                after.copy
            );
        }
        for (epoch, lived) in &terms {
            assert!(lived.processes <= 2, "term {epoch} had more than one child: {lived:?}");
        }
    }
}

/// The first and the last whole record of a file.
fn span(path: &Path) -> Option<(BootInstant, BootInstant)> {
    let text = fs::read_to_string(path).ok()?;
    let whole = &text[..text.rfind('\n')?];
    let read = |line: &str| BootInstant::from_nanos(line.parse().unwrap());
    Some((read(whole.lines().next()?), read(whole.lines().next_back()?)))
}
