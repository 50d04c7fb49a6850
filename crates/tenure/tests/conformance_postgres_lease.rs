//! Every law of a lock, on the Postgres lease row.

use tenure_testkit::{conformance::PostgresLeaseBackend, lock_conformance};

lock_conformance!(PostgresLeaseBackend::start());
