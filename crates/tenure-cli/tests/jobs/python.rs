//! The client and the agent of the docs, in plain Python.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use crate::scene::{Agent, Cluster};

on_both! {
    a_client_and_an_agent_in_plain_python_survive_a_failover
}

fn python(cluster: &Cluster, arguments: &[&str]) -> Command {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/jobs/client.py");
    let urls: Vec<_> = cluster.places.iter().map(|place| place.url.as_str()).collect();
    let mut command = Command::new("/usr/bin/python3");
    command.arg(program).args(arguments).env("TENURE_CONTROLLERS", urls.join(","));
    command.current_dir(&cluster.folder).stdin(Stdio::null());
    command
}

async fn a_client_and_an_agent_in_plain_python_survive_a_failover(cluster: &mut Cluster) {
    let leader = cluster.controllers(2).await;
    let _agent = Agent(python(cluster, &["work", "python-agent"]).spawn().unwrap());
    let submit = |cluster: &Cluster, count: &str| {
        let done = python(cluster, &["submit", count]).stdout(Stdio::piped()).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    assert_eq!(submit(cluster, "20").trim(), "20 succeeded");
    cluster.places[leader].kill();
    assert_eq!(submit(cluster, "20").trim(), "20 succeeded");
    let (next, _) = cluster.leader_after(1).await;
    let listed = cluster.get(next, "/v1/jobs?agent=python-agent&state=succeeded").await.done();
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 40);
}
