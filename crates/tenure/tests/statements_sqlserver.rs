//! The statements of SQL Server: one batch each, as many parameters as are bound, and a twin on Postgres.

use tenure::{fence, lock::sqlserver_lease};
use tenure_testkit::statements;

#[test]
fn every_statement_is_one_batch_that_binds_what_it_explains_and_has_its_twin() {
    let sent = [sqlserver_lease::BATCHES, fence::sqlserver::BATCHES].concat();
    let alone = ["schema/procedures", "fragment/server_identity"];
    statements::check(env!("CARGO_MANIFEST_DIR"), &sent, &alone);
}
