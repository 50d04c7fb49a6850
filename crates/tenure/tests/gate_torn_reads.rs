//! The gate's two words under every interleaving that the memory model allows, by loom.
//!
//! The file under test is the shipping one; only its atomics are loom's.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../src/gate/cell.rs"]
#[allow(dead_code, reason = "the gate uses all of it, the interleavings only a part")]
mod cell;

mod atomic {
    pub(super) use loom::sync::atomic::{AtomicI64, AtomicU64, Ordering};
}

use cell::{Cell, Pass};
use loom::{sync::Arc, thread};

const FIRST: Pass = Pass { epoch: 1, until_nanos: 100, admits_new_work: true };
const RENEWED: Pass = Pass { epoch: 1, until_nanos: 200, admits_new_work: true };
const DRAINING: Pass = Pass { epoch: 1, until_nanos: 200, admits_new_work: false };
const SECOND: Pass = Pass { epoch: 2, until_nanos: 300, admits_new_work: true };

/// Writes in one thread, reads in another, and hands every read to the check.
fn readers_see(write: fn(&Cell), check: fn(Option<Pass>)) {
    loom::model(move || {
        let cell = Arc::new(Cell::shut());
        cell.open(FIRST);
        let writer = {
            let cell = Arc::clone(&cell);
            thread::spawn(move || write(&cell))
        };
        check(cell.read());
        writer.join().unwrap();
    });
}

#[test]
fn a_reader_never_mixes_two_terms() {
    readers_see(
        |cell| cell.open(SECOND),
        |seen| assert!([None, Some(FIRST), Some(SECOND)].contains(&seen), "{seen:?}"),
    );
}

#[test]
fn a_reader_never_mixes_two_terms_when_the_gate_was_shut_between_them() {
    readers_see(
        |cell| {
            cell.close();
            cell.open(SECOND);
        },
        |seen| assert!([None, Some(FIRST), Some(SECOND)].contains(&seen), "{seen:?}"),
    );
}

#[test]
fn a_renewal_never_shuts_the_gate_for_a_reader() {
    readers_see(
        |cell| {
            cell.open(RENEWED);
            cell.open(DRAINING);
        },
        |seen| assert!([Some(FIRST), Some(RENEWED), Some(DRAINING)].contains(&seen), "{seen:?}"),
    );
}
