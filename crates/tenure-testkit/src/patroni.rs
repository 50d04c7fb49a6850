//! A real Patroni cluster: two Postgres servers that fail over by themselves, and the etcd that decides.
//!
//! Its durations are short, so that a failover takes seconds, and long enough that a busy machine does not fail
//! over by itself. What a test asks of the cluster may come late for the same reason: it waits for what it sees.

mod configuration;
mod node;
mod rest;

use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::json;
use tokio::time::sleep;
use tokio_postgres::{Client, NoTls};

use crate::etcd::Etcd;
use node::Node;

const POLL: Duration = Duration::from_millis(50);
const SETTLES_WITHIN: Duration = Duration::from_secs(90);

/// Whether a commit waits for the replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
    /// It does not: a failover may lose what was acknowledged last.
    Asynchronous,
    /// It does, and only a replica that has everything may take over (`synchronous_mode`).
    Synchronous,
}

/// A running cluster of two, gone with this value.
pub struct Cluster {
    // Before etcd: a node that loses it would begin to demote its server.
    nodes: [Node; 2],
    replication: Replication,
    _etcd: Etcd,
}

impl Cluster {
    /// Starts etcd and both nodes, and waits until one streams from the other.
    pub async fn start(replication: Replication) -> Result<Self> {
        let etcd = Etcd::start().await?;
        let endpoint = etcd.endpoint();
        let nodes =
            [Node::new("one", &endpoint, replication)?, Node::new("two", &endpoint, replication)?];
        let cluster = Self { nodes, replication, _etcd: etcd };
        for node in &cluster.nodes {
            node.start().await?;
        }
        cluster.until_healthy().await?;
        Ok(cluster)
    }

    /// The superuser's URL of the database `postgres`, wherever the primary is.
    #[must_use]
    pub fn url(&self) -> String {
        let [one, two] = self.nodes.each_ref().map(Node::port);
        format!(
            "postgres://postgres@127.0.0.1:{one},127.0.0.1:{two}/postgres?target_session_attrs=read-write"
        )
    }

    /// Connects to the primary as the superuser, as soon as there is one.
    pub async fn connect(&self) -> Result<Client> {
        let connecting = async || tokio_postgres::connect(&self.url(), NoTls).await.ok();
        let (client, connection) = self.until("a session", connecting).await?;
        // Ends with the client, or with the server, whose loss the client's next call reports.
        tokio::spawn(async move { connection.await.ok() });
        Ok(client)
    }

    /// The port of a node's Postgres.
    #[must_use]
    pub fn port(&self, node: usize) -> u16 {
        self.nodes[node].port()
    }

    /// The port where a node's Patroni answers, say to the checks of a load balancer.
    #[must_use]
    pub fn rest_port(&self, node: usize) -> u16 {
        self.nodes[node].rest_port()
    }

    /// The node that says of itself that it is the primary.
    pub async fn primary(&self) -> Option<usize> {
        for (at, node) in self.nodes.iter().enumerate() {
            if node.is_primary().await {
                return Some(at);
            }
        }
        None
    }

    /// Waits until there is a primary, and returns which.
    pub async fn until_primary(&self) -> Result<usize> {
        self.until("a primary", async || self.primary().await).await
    }

    /// Waits until there is a primary and the other streams from it; in synchronous mode, until commits wait for
    /// it.
    pub async fn until_healthy(&self) -> Result<usize> {
        let waits = self.replication == Replication::Synchronous;
        self.until("a primary and its replica", async || {
            let primary = self.primary().await?;
            let is_healthy = self.nodes[primary].is_followed().await
                && (!waits || self.nodes[1 - primary].is_synchronous().await);
            is_healthy.then_some(primary)
        })
        .await
    }

    /// Kills the primary, its Patroni and all their processes, as if their machine had lost its power.
    pub async fn crash_primary(&self) -> Result<usize> {
        let primary = self.until_primary().await?;
        self.nodes[primary].crash().await?;
        Ok(primary)
    }

    /// Starts a node that has crashed; it becomes a replica of whoever is the primary by now.
    pub async fn bring_back(&self, node: usize) -> Result<()> {
        self.nodes[node].start().await
    }

    /// Has the two change places in order, and returns the new primary.
    pub async fn switchover(&self) -> Result<usize> {
        let old = self.until_healthy().await?;
        let (leader, candidate) = (&self.nodes[old], &self.nodes[1 - old]);
        let order = json!({"leader": leader.name(), "candidate": candidate.name()});
        self.until("an accepted switchover", async || leader.is_told("/switchover", &order).await)
            .await?;
        self.until("the other primary", async || candidate.is_primary().await.then_some(1 - old))
            .await
    }

    /// Lets nothing more reach the replica; commits that do not wait for it go on. What is committed from here to
    /// a crash of the primary is lost by the failover.
    pub async fn hold_replication(&self) -> Result<()> {
        let primary = self.until_healthy().await?;
        self.nodes[primary].stop_senders()
    }

    /// What both have logged last, for an error.
    fn logs(&self) -> String {
        self.nodes.iter().map(|node| format!("--- {}\n{}\n", node.name(), node.log_end())).collect()
    }

    async fn until<T, Answer>(&self, what: &str, ask: impl Fn() -> Answer) -> Result<T>
    where
        Answer: Future<Output = Option<T>>,
    {
        let asking = async {
            loop {
                if let Some(answer) = ask().await {
                    return answer;
                }
                sleep(POLL).await;
            }
        };
        tokio::select! {
            answer = asking => Ok(answer),
            () = sleep(SETTLES_WITHIN) => bail!("{what}: not within {SETTLES_WITHIN:?}\n{}", self.logs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn kept(cluster: &Cluster) -> Vec<i32> {
        let rows = cluster
            .connect()
            .await
            .unwrap()
            .query("select n from kept order by n", &[])
            .await
            .unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    #[tokio::test]
    async fn what_was_held_back_is_lost_by_a_crash_and_the_node_comes_back() {
        let cluster = Cluster::start(Replication::Asynchronous).await.unwrap();
        let client = cluster.connect().await.unwrap();
        client.batch_execute("create table kept as select 1 as n").await.unwrap();
        let new = cluster.switchover().await.unwrap();
        assert_eq!(kept(&cluster).await, [1]);

        cluster.hold_replication().await.unwrap();
        cluster
            .connect()
            .await
            .unwrap()
            .batch_execute("insert into kept values (2)")
            .await
            .unwrap();
        assert_eq!(cluster.crash_primary().await.unwrap(), new);
        assert_eq!(cluster.until_primary().await.unwrap(), 1 - new);
        assert_eq!(kept(&cluster).await, [1]);
        cluster.bring_back(new).await.unwrap();
        assert_eq!(cluster.until_healthy().await.unwrap(), 1 - new);
    }

    #[tokio::test]
    async fn nothing_acknowledged_is_lost_by_a_crash_in_synchronous_mode() {
        let cluster = Cluster::start(Replication::Synchronous).await.unwrap();
        let client = cluster.connect().await.unwrap();
        client.batch_execute("create table kept as select 1 as n").await.unwrap();
        let old = cluster.crash_primary().await.unwrap();
        assert_eq!(cluster.until_primary().await.unwrap(), 1 - old);
        assert_eq!(kept(&cluster).await, [1]);
    }
}
