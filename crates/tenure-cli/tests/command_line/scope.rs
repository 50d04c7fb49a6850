//! `tenure scope burn-epochs` and `tenure scope switch-lock`.

use serde_json::Value;
use tenure::{
    Epoch, Term, Timing,
    fence::{Fence, FenceError, PostgresFence, Raised},
    lock::LockPlace,
};
use tenure_testkit::secs;

use crate::{
    leaders::{Leader, migrated_file, migrated_server},
    process::Tenure,
};

fn status(tenure: Tenure) -> Value {
    let json = tenure.run("status --json --scope jobs").done();
    let status: Value = serde_json::from_str(&json).expect("JSON");
    status["scopes"][0].clone()
}

fn assert_burnt(scope: &Value, fence: i64) {
    assert_eq!((&scope["epoch"], &scope["fence_epoch"]), (&1.into(), &fence.into()), "{scope}");
    let term = &scope["terms"][0];
    assert_eq!((&term["epoch"], &term["reason"]), (&1.into(), &"epochs_burnt".into()), "{scope}");
    assert_ne!(term["ended_at"], Value::Null);
}

#[tokio::test]
async fn burnt_epochs_on_a_server_end_the_term_and_the_next_one_is_above_them() {
    let postgres = migrated_server().await;
    let tenure = || Tenure::on(&postgres.url());
    Leader::by_lease(&postgres, "tenure_leases", "jobs", "node-a").await;
    let told = tenure().run("scope burn-epochs --scope jobs").done();
    assert_eq!(
        told,
        "scope jobs: 1000 epochs burnt; the fence stands at 1001, and every term up to it is refused\n"
    );
    assert_burnt(&status(tenure()), 1001);

    let expire = "UPDATE tenure_leases SET expires_at = clock_timestamp()";
    postgres.connect().await.unwrap().batch_execute(expire).await.unwrap();
    let next = Leader::by_lease(&postgres, "tenure_leases", "jobs", "node-b").await;
    assert_eq!(next.term.epoch(), Epoch::new(1002));
    let told = tenure().run("scope burn-epochs --scope jobs --by 1").done();
    assert!(told.contains("1 epoch burnt; the fence stands at 1003"), "{told}");
}

#[tokio::test]
async fn burnt_epochs_in_a_file_end_the_term_and_the_next_one_is_above_them() {
    let (_folder, data) = migrated_file();
    let tenure = || Tenure::on_file(&data);
    let leader = Leader::by_file(&data, "jobs", "node-a").await;
    let told = tenure().run("scope burn-epochs --scope jobs --by 41").done();
    assert!(told.contains("41 epochs burnt; the fence stands at 42"), "{told}");
    assert_burnt(&status(tenure()), 42);

    leader.release().await;
    let next = Leader::by_file(&data, "jobs", "node-b").await;
    assert_eq!(next.term.epoch(), Epoch::new(43));
}

#[tokio::test]
async fn after_a_switch_another_lock_may_fence_the_scope() {
    let postgres = migrated_server().await;
    let leader = Leader::by_lease(&postgres, "tenure_leases", "jobs", "node-a").await;
    let (term, timing) = (leader.term.clone(), Timing::lease(secs(30)).build().unwrap());
    leader.release().await;
    let next = Term::granted(term.scope().clone(), term.holder().clone(), term.epoch().next());
    let fence = PostgresFence::new(postgres.url().parse().unwrap(), timing);
    let other = LockPlace { kind: "etcd", name: "cluster-1".to_owned() };
    let refused = fence.raise(&next, &other).await;
    assert!(matches!(refused, Err(FenceError::OtherLock { .. })), "{refused:?}");

    let told = Tenure::on(&postgres.url()).run("scope switch-lock --scope jobs").done();
    assert_eq!(
        told,
        "scope jobs: its next winner may bring any lock; until now it was postgres-lease tenure_leases\n"
    );
    let again = Tenure::on(&postgres.url()).run("scope switch-lock --scope jobs").done();
    assert!(again.contains("nothing to do"), "{again}");
    assert_eq!(fence.raise(&next, &other).await.unwrap(), Raised::Raised);
    assert_eq!(status(Tenure::on(&postgres.url()))["lock"], "etcd");
}

#[tokio::test]
async fn a_switch_in_a_file_says_which_lock_it_was() {
    let (_folder, data) = migrated_file();
    Leader::by_file(&data, "jobs", "node-a").await.release().await;
    let told = Tenure::on_file(&data).run("scope switch-lock --scope jobs").done();
    assert!(told.contains("any lock; until now it was sqlite-lease"), "{told}");
}

#[tokio::test]
async fn an_unknown_scope_is_an_error() {
    let postgres = migrated_server().await;
    let (_folder, data) = migrated_file();
    for db in [postgres.url(), format!("sqlite:{}", data.display())] {
        for command in ["burn-epochs", "switch-lock"] {
            let refused = Tenure::on(&db).run(&format!("scope {command} --scope nowhere")).failed();
            assert!(refused.contains("nobody has ever led the scope 'nowhere'"), "{refused}");
        }
    }
}

#[tokio::test]
async fn only_the_owner_of_the_schema_may_change_a_scope() {
    let postgres = migrated_server().await;
    postgres.connect().await.unwrap().batch_execute("CREATE ROLE app LOGIN").await.unwrap();
    Tenure::on(&postgres.url()).run("migrate --grant-to app").done();
    Leader::by_lease(&postgres, "tenure_leases", "jobs", "node-a").await;
    for command in ["burn-epochs", "switch-lock"] {
        let app = Tenure::on(&postgres.url_as("app", "postgres"));
        let refused = app.run(&format!("scope {command} --scope jobs")).failed();
        assert!(refused.contains("only the schema's owner"), "{refused}");
    }
    assert_eq!(status(Tenure::on(&postgres.url()))["fence_epoch"], 1);
}
