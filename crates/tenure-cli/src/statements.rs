//! The statements of SQL Server: one batch each, as many parameters as are bound, and a twin on Postgres.

use tenure_testkit::statements;

use crate::{drain, scope, status};

#[test]
fn every_statement_is_one_batch_that_binds_what_it_explains_and_has_its_twin() {
    let sent = [&drain::BATCHES[..], &scope::BATCHES, &status::BATCHES].concat();
    statements::check(env!("CARGO_MANIFEST_DIR"), &sent, &[]);
}
