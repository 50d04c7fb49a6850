//! What holds a raise back, and how it is ended.
//!
//! A raise waits for the fenced transactions that are open. Their timeouts bound each statement and each pause, but
//! nothing bounds their number, and a transaction that was prepared for two-phase commit has no timeouts at all. So
//! a raise that has waited for the margin ends whoever it waits for: by then the term that they passed the fence
//! with is over. Whoever it may not end is named in the log.

use std::{convert::Infallible, time::Duration};

use tenure_database::{DatabaseError, Deadline, postgres::Line};
use tokio_postgres::{Row, types::Type};

use crate::{postgres_call::Parameter, term::Scope};

const HOLDS_BACK: &str = include_str!("../../../sql/postgres/fence/holds_back.sql");

/// How often whoever is still there is looked for.
const AGAIN: Duration = Duration::from_millis(100);

/// Clears the way for a raise that is under way, until it is dropped.
pub(super) async fn clear_the_way(line: &mut Line, scope: &Scope, limit: Duration) -> Infallible {
    loop {
        if let Err(error) = end_once(line, scope, Deadline::after(limit)).await {
            let sql_error = tenure_database::error::chain(&error);
            tracing::warn!(target: "tenure", %scope, sql_error, "fence_cannot_look_what_holds_it_back");
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn end_once(line: &mut Line, scope: &Scope, deadline: Deadline) -> Result<(), DatabaseError> {
    let session = line.take(deadline).await?;
    let name = scope.as_str();
    let parameters: [Parameter<'_>; 1] = [(&name, Type::TEXT)];
    for row in deadline.run(session.query_typed(HOLDS_BACK, &parameters)).await? {
        let mut ended: bool = row.get("ended");
        if let (Some(gid), true) = (row.get::<_, Option<&str>>("gid"), row.get("may_end")) {
            let rollback = format!("ROLLBACK PREPARED '{}'", gid.replace('\'', "''"));
            ended = deadline.run(session.batch_execute(&rollback)).await.is_ok();
        }
        tell(scope, &row, ended);
    }
    line.put_back(session);
    Ok(())
}

fn tell(scope: &Scope, row: &Row, ended: bool) {
    let (pid, gid): (i32, Option<&str>) = (row.get("pid"), row.get("gid"));
    let (role, application): (Option<&str>, &str) = (row.get("role"), row.get("application"));
    let open_ms = row.get::<_, f64>("open_ms") as u64;
    let help = match (ended, gid) {
        (true, _) => "it was ended",
        (false, None) => {
            "this role may not end it: pg_terminate_backend, by its owner or a superuser"
        }
        (false, Some(_)) => {
            "this role may not end it: ROLLBACK PREPARED, by its owner or a superuser"
        }
    };
    tracing::warn!(target: "tenure", %scope, pid, gid, role, application, open_ms, help,
        "fence_held_back");
}
