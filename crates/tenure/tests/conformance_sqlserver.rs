//! Every law of a lock, on the SQL Server lease row: where `TENURE_TEST_SQLSERVER` names a server.

use tenure_testkit::{conformance::SqlServerBackend, lock_conformance};

lock_conformance!(SqlServerBackend::start(), ignore = "needs TENURE_TEST_SQLSERVER");
