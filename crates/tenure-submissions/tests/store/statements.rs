//! The statements of SQL Server: one batch each, as many parameters as are bound, and a twin on Postgres.

use tenure_submissions::store::sqlserver;
use tenure_testkit::statements;

#[test]
fn every_statement_is_one_batch_that_binds_what_it_explains_and_has_its_twin() {
    statements::check(env!("CARGO_MANIFEST_DIR"), &sqlserver::batches(), &[]);
}
