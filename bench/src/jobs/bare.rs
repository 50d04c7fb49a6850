//! The limit: the same rows of the same tables through bare SQL, a transaction for each step. Nobody picks, judges,
//! fences or tells here.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use anyhow::{Result, ensure};
use tenure::BootInstant;
use tokio::task::JoinSet;
use tokio_postgres::Client;

use super::{Server, work::Work};

const LEASE: &str = "UPDATE tenure_jobs
    SET state = 'leased', lease_id = 'bare', leased_by = 'bare', leased_at = clock_timestamp(),
        lease_expires_at = clock_timestamp() + interval '30 seconds'
    WHERE row_number = ANY ($1)";
const END: &str = "UPDATE tenure_jobs
    SET state = 'succeeded', completed_at = clock_timestamp(), lease_expires_at = NULL
    WHERE row_number = ANY ($1)";
const END_AND_RECORD: &str = "WITH ended AS (
        UPDATE tenure_jobs
        SET state = 'succeeded', completed_at = clock_timestamp(), lease_expires_at = NULL
        WHERE row_number = ANY ($1)
        RETURNING row_number
    )
    INSERT INTO tenure_job_results (row_number, job_epoch, lease_id, status, result, leader_epoch, recorded_at)
    SELECT row_number, 1, 'bare', 'succeeded', '{\"ok\":true}', 0, clock_timestamp() FROM ended";

/// How a job ends.
#[derive(Clone, Copy)]
pub enum Ending {
    Updated,
    /// And a result is kept.
    Recorded,
}

impl Work {
    /// Jobs a second.
    pub async fn through_bare_sql(self, server: &Server, ending: Ending) -> Result<f64> {
        server.fill(self.jobs).await?;
        let next = Arc::new(AtomicI64::new(1));
        let mut clients = Vec::new();
        for _ in 0..self.agents {
            clients.push(server.postgres.connect().await?);
        }
        let began = BootInstant::now();
        let mut working = JoinSet::new();
        for client in clients {
            working.spawn(self.one_connection(client, Arc::clone(&next), ending));
        }
        while let Some(worked) = working.join_next().await {
            worked??;
        }
        let rate = self.jobs as f64 / BootInstant::now().since(began).as_secs_f64();
        let done = server.count("tenure_jobs WHERE state = 'succeeded'").await?;
        ensure!(done == self.jobs, "{done} of {} rows updated", self.jobs);
        println!("    {:<44} {rate:>10.0} /s", "through bare SQL");
        Ok(rate)
    }

    async fn one_connection(
        self,
        client: Client,
        next: Arc<AtomicI64>,
        ending: Ending,
    ) -> Result<()> {
        let lease = client.prepare(LEASE).await?;
        let end = match ending {
            Ending::Updated => client.prepare(END).await?,
            Ending::Recorded => client.prepare(END_AND_RECORD).await?,
        };
        let most = self.most as i64;
        loop {
            let first = next.fetch_add(most, Ordering::Relaxed);
            if first > self.jobs {
                return Ok(());
            }
            let rows: Vec<_> = (first..(first + most).min(self.jobs + 1)).collect();
            client.execute(&lease, &[&rows]).await?;
            client.execute(&end, &[&rows]).await?;
        }
    }
}
