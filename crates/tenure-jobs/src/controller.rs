//! One controller: serves reads always, and writes while it leads.

use std::{sync::Arc, time::Duration};

use prometheus_client::registry::Registry;
use tenure::election::Handle;
use tenure_http::{Health, KnownLeader, Node, Stand};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    leader::{Desk, Leader, Pace, Takeover},
    observe::Metrics,
    store::Store,
};

/// How soon after one look who leads the next may come.
const REST: Duration = Duration::from_millis(50);

/// A controller that nobody serves yet.
#[derive(Clone)]
pub struct Controller {
    /// Where jobs are kept.
    pub(crate) store: Arc<dyn Store>,
    /// Where changes are handed in.
    pub(crate) desk: Desk,
    /// What it is at any moment.
    pub(crate) stand: Stand,
    /// What is counted.
    pub(crate) metrics: Metrics,
    /// Changes whenever events may have been written.
    pub(crate) news: watch::Receiver<u64>,
    /// Cancelled when those who follow the events must go elsewhere.
    pub(crate) stop: CancellationToken,
    told: watch::Receiver<Option<KnownLeader>>,
    url: Option<String>,
}

/// What a controller needs before there is an election.
pub struct Prepared {
    /// The work of its terms.
    pub leader: Leader,
    store: Arc<dyn Store>,
    metrics: Metrics,
    url: Option<String>,
}

impl Prepared {
    /// Prepares a controller; `takeover` is what it says of itself whenever it leads.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        takeover: Takeover,
        pace: Pace,
        registry: &mut Registry,
    ) -> Self {
        let metrics = Metrics::register(registry);
        let url = takeover.leader_url.clone();
        let leader = Leader::new(Arc::clone(&store), takeover, pace, metrics.clone());
        Self { leader, store, metrics, url }
    }

    /// Puts it behind an election whose work is the leader.
    #[must_use]
    pub fn behind(self, election: &Handle) -> Controller {
        let Self { leader, store, metrics, url } = self;
        leader.behind(election.clone());
        let news = store.news();
        let told = follow_leaders(Arc::clone(&store), election, news.clone());
        let node = node(election, url.clone(), told.clone(), Registry::default());
        let stop = CancellationToken::new();
        let desk = leader.desk();
        Controller { stand: node.stand(), store, desk, metrics, news, stop, told, url }
    }
}

impl Controller {
    /// The node, for the routes that every election has.
    #[must_use]
    pub fn node(&self, election: &Handle, registry: Registry) -> Node {
        node(election, self.url.clone(), self.told.clone(), registry)
    }

    /// Ends the streams of events, which end by nothing else.
    pub fn stop(&self) {
        self.stop.cancel();
    }
}

fn node(
    election: &Handle,
    url: Option<String>,
    told: watch::Receiver<Option<KnownLeader>>,
    registry: Registry,
) -> Node {
    Node {
        election: election.clone(),
        title: "tenure controller".to_owned(),
        facts: Vec::new(),
        url,
        told: Some(told),
        health: Health::Role,
        metrics: Arc::new(registry),
    }
}

/// Knows who led last and where, as soon as the database tells.
#[must_use]
pub fn follow_leaders(
    store: Arc<dyn Store>,
    election: &Handle,
    mut news: watch::Receiver<u64>,
) -> watch::Receiver<Option<KnownLeader>> {
    let (tell, told) = watch::channel(None);
    let mut leadership = election.leadership();
    tokio::spawn(async move {
        loop {
            news.mark_unchanged();
            // Without an answer the last one stands.
            if let Ok(Some(leader)) = store.leader().await {
                tell.send_if_modified(|known| {
                    let is_new = known.as_ref() != Some(&leader);
                    *known = Some(leader);
                    is_new
                });
            }
            let is_over = tokio::select! {
                () = tell.closed() => true,
                changed = news.changed() => changed.is_err(),
                changed = leadership.changed() => changed.is_err(),
            };
            if is_over {
                return;
            }
            tokio::time::sleep(REST).await;
        }
    });
    told
}
