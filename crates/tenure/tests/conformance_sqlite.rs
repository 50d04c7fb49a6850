//! Every law of a lock, on the SQLite lease file.

use tenure_testkit::{conformance::SqliteBackend, lock_conformance};

lock_conformance!(SqliteBackend::start());
