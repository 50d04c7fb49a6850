//! What a run cost the database.

use anyhow::Result;
use tokio_postgres::Client;

/// Where the counters stood.
pub struct Costs {
    wal: i64,
    commits: i64,
    updates: i64,
    hot: i64,
}

impl Costs {
    pub async fn now(client: &Client) -> Result<Self> {
        let read = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint,
                           (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()),
                           n_tup_upd, n_tup_hot_upd
                    FROM pg_stat_user_tables WHERE relname = 'payment_outbox_pending'";
        let row = client.query_one(read, &[]).await?;
        Ok(Self { wal: row.get(0), commits: row.get(1), updates: row.get(2), hot: row.get(3) })
    }

    /// What has been added since, for each of so many rows.
    pub async fn print(&self, client: &Client, rows: usize) -> Result<()> {
        let now = Self::now(client).await?;
        let dead =
            "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'payment_outbox_pending'";
        let dead: i64 = client.query_one(dead, &[]).await?.get(0);
        let (updates, hot) = (now.updates - self.updates, now.hot - self.hot);
        println!(
            "      per row: {:.0} bytes of WAL, {:.4} commits; {dead} dead tuples, {:.0} % of {updates} updates HOT",
            (now.wal - self.wal) as f64 / rows as f64,
            (now.commits - self.commits) as f64 / rows as f64,
            100.0 * hot as f64 / (updates.max(1)) as f64,
        );
        Ok(())
    }
}
