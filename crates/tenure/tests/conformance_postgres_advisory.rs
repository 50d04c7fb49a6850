//! Every law of a lock, on the Postgres advisory lock.

use tenure_testkit::{conformance::PostgresAdvisoryBackend, lock_conformance};

lock_conformance!(PostgresAdvisoryBackend::start());
