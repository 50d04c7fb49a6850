//! What the role of a controller can not do. What it can is shown by every other test.

use tokio_postgres::error::SqlState;

use super::{OnPostgres, ROLE};
use crate::scene::{Backend, Scene, TABLES, heartbeat, job};

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_cannot_undo_what_has_happened() {
    let backend = OnPostgres::start().await;
    let scene = Scene::begin(&backend).await;
    scene.hear([heartbeat("ann")]).await;
    scene.lease(job("a"), "ann").await;
    scene.end("a").await;
    let before = scene.everything().await;
    let client = backend.postgres.connect_as(ROLE).await.unwrap();
    let mut forbidden = vec![
        "DELETE FROM tenure_jobs".to_owned(),
        "DELETE FROM tenure_job_results".to_owned(),
        "DELETE FROM tenure_job_leases".to_owned(),
        "DELETE FROM tenure_job_leaders".to_owned(),
        "DELETE FROM tenure_job_changes".to_owned(),
        "UPDATE tenure_job_results SET status = 'failed'".to_owned(),
        "UPDATE tenure_job_leases SET agent = 'bob'".to_owned(),
        "UPDATE tenure_job_leaders SET leader_id = 'b'".to_owned(),
        "UPDATE tenure_job_events SET kind = 'x'".to_owned(),
        "INSERT INTO tenure_job_changes VALUES (true, '', 0)".to_owned(),
        "CREATE TABLE mine (n int)".to_owned(),
    ];
    for table in TABLES {
        forbidden.push(format!("TRUNCATE {table}"));
        forbidden.push(format!("DROP TABLE {table}"));
        forbidden.push(format!("ALTER TABLE {table} ADD n int"));
    }
    for statement in forbidden {
        let answer = client.batch_execute(&statement).await.unwrap_err();
        let code = answer.code();
        assert_eq!(code, Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{statement}: {answer}");
    }
    assert_eq!(scene.everything().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_without_rights_reads_nothing() {
    let backend = OnPostgres::start().await;
    backend.client.batch_execute("CREATE ROLE nobody LOGIN").await.unwrap();
    let client = backend.postgres.connect_as("nobody").await.unwrap();
    for table in TABLES {
        let answer = client.query(&format!("SELECT FROM {table}"), &[]).await.unwrap_err();
        assert_eq!(answer.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{table}: {answer}");
    }
    assert_eq!(backend.rows("tenure_job_changes").await.len(), 1);
}
