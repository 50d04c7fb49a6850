//! How a controller and a node are set up, and what is refused.

use serde_json::json;
use tenure_testkit::{Port, eventually_true};

use crate::scene::{Cluster, SOON};

on_both! {
    a_controller_is_started_by_the_environment
}

async fn a_controller_is_started_by_the_environment(cluster: &mut Cluster) {
    let port = Port::claim().unwrap();
    let mut command = cluster.command("log");
    command.arg("controller").env_remove("TENURE_DB");
    command.env("HOST", "127.0.0.1").env("PORT", port.number().to_string());
    command.env("DATABASE_URL", &cluster.db).env("NODE_ID", "from-env");
    command.env("LEADER_LOCK_KEY", "4711").env("LEADER_POLL_S", "0.2");
    command.env("LEADER_URL", "http://elsewhere.example:1/");
    let mut running = crate::scene::Agent(command.spawn().unwrap());
    let url = format!("http://127.0.0.1:{}/role", port.number());
    let role = async || {
        let answer = cluster.client.get(&url).send().await.ok()?;
        answer.json::<serde_json::Value>().await.ok()
    };
    eventually_true("it leads", SOON, async || {
        role().await.is_some_and(|role| role["role"] == "LEADER")
    })
    .await;
    let expected = json!({
        "node_id": "from-env", "role": "LEADER", "leader_epoch": 1, "leader_id": "from-env",
        "leader_url": "http://elsewhere.example:1",
    });
    assert_eq!(role().await.unwrap(), expected);
    if let Some(postgres) = &cluster.postgres {
        let client = postgres.connect().await.unwrap();
        let held =
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objid = $1";
        let count: i64 = client.query_one(held, &[&4711_u32]).await.unwrap().get(0);
        assert_eq!(count, 1, "the key of the environment is the one that is locked");
    }
    running.signal(rustix::process::Signal::TERM);
    assert_eq!(running.code().await, Some(0));
}

#[tokio::test]
async fn leaders_of_another_scope_are_kept_from_the_jobs() {
    let cluster = &mut Cluster::on_sqlite();
    let at = cluster.controllers(1).await;
    cluster.submit(at, "job", "echo", json!(1)).await.done();
    cluster.argue("--scope another");
    let other = cluster.place();
    cluster.start_controller(other);
    eventually_true("it is refused", SOON, async || {
        cluster.log_of(other).contains("belong to the scope 'controller', not to 'another'")
    })
    .await;
    assert_eq!(cluster.role_of(other).await, "STANDBY");
}

#[test]
fn a_node_says_what_is_wrong_with_its_settings() {
    let cluster = Cluster::on_sqlite();
    let check = |text: &str| {
        cluster.write("node.toml", text);
        cluster.tenure(&["node", "--config", "node.toml", "--check"])
    };
    let good = check("[controller]\nhttp = \"8700\"\n");
    assert!(good.status.success(), "{good:?}");
    assert!(String::from_utf8(good.stdout).unwrap().contains("the settings are good"));
    let wrong = [
        ("", "controller"),
        ("[controller]\nhttp = \"x\"", "line 2"),
        ("[controller]\nhttp = \"8700\"\njob_leese = \"1s\"", "job_leese"),
        ("[controller]\nhttp = \"8700\"\njob_lease = \"1\"", "write it like 10s"),
        ("[controller]\nhttp = \"8700\"\nstale_after = \"1h\"", "--stale-after"),
        ("[controller]\nhttp = \"8700\"\nurl = \"ftp://x\"", "url"),
        ("[controller]\nhttp = \"8700\"\ntoken_file = \"nowhere\"", "nowhere"),
        ("[controller]\nhttp = \"8700\"\n[agent]\ncontrollers = []", "[agent]"),
        ("[controller]\nhttp = \"8700\"\n[lock]\nkind = \"paxos\"", "line 4"),
        ("[controller]\nhttp = \"8700\"\n[lock]\nkind = \"etcd\"", "--etcd"),
    ];
    for (text, told) in wrong {
        let refused = check(text);
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{text}: {stderr}");
        assert!(stderr.contains(told) && stderr.contains("node.toml"), "{text}: {stderr}");
    }
    let mut command = cluster.command("log");
    cluster
        .write("node.toml", "database = \"mysql://me:s3cret@db\"\n[controller]\nhttp = \"8700\"");
    command.env_remove("TENURE_DB").args(["node", "--config", "node.toml", "--check"]);
    let refused = command.stderr(std::process::Stdio::piped()).output().unwrap();
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && !stderr.contains("s3cret"), "{stderr}");
}
