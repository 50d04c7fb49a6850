//! A steady stream of intents, sent as a good client does: again, to another instance, until one has it.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use reqwest::{Client, StatusCode};
use serde_json::json;
use tenure::{BootInstant, HolderId};
use tokio::time::MissedTickBehavior;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{TARGET, instances::Urls};

/// How long to wait before the next try.
const PAUSE: Duration = Duration::from_millis(50);
/// How long one answer may take.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// How long a client tries before it gives up.
const TRIES_FOR: Duration = Duration::from_secs(30);

/// A stream that flows.
#[derive(Clone)]
pub struct Load {
    /// The ids that an instance has confirmed.
    submitted: Arc<Mutex<Vec<String>>>,
    /// Clients that no instance has answered.
    given_up: Arc<AtomicUsize>,
    stop: CancellationToken,
    clients: TaskTracker,
}

impl Load {
    pub fn start(rate: u32, urls: Urls) -> Self {
        let (submitted, stop) = (Arc::<Mutex<Vec<String>>>::default(), CancellationToken::new());
        let (clients, given_up) = (TaskTracker::new(), Arc::<AtomicUsize>::default());
        let load = Self { submitted, given_up, stop, clients };
        load.clients.spawn(load.clone().stream(rate, urls));
        load
    }

    pub fn submitted(&self) -> usize {
        self.submitted.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// No new intents; those under way are awaited. The ids that were confirmed, and how many clients gave up.
    pub async fn stop(self) -> (Vec<String>, usize) {
        self.stop.cancel();
        self.clients.close();
        self.clients.wait().await;
        let submitted = &mut *self.submitted.lock().unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(submitted), self.given_up.load(Ordering::Relaxed))
    }

    async fn stream(self, rate: u32, urls: Urls) {
        let client = Client::builder().timeout(ANSWERS_WITHIN).no_proxy().build();
        let client = client.unwrap_or_default();
        // Another run's ids are another's.
        let run = HolderId::fresh();
        let mut next = tokio::time::interval(Duration::from_secs(1) / rate);
        next.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for number in 0_u64.. {
            tokio::select! {
                () = self.stop.cancelled() => return,
                _ = next.tick() => {}
            }
            let id = format!("demo-{run}-{number}");
            let (client, urls, load) = (client.clone(), Arc::clone(&urls), self.clone());
            self.clients.spawn(async move {
                match submit(&client, &urls, &id, number).await {
                    true => load.submitted.lock().unwrap_or_else(PoisonError::into_inner).push(id),
                    false => drop(load.given_up.fetch_add(1, Ordering::Relaxed)),
                }
            });
        }
    }
}

/// Whether an instance has confirmed it.
async fn submit(client: &Client, urls: &Urls, id: &str, number: u64) -> bool {
    let body = json!({"intentId": id, "submissionTarget": TARGET, "payload": {"number": number}});
    let began = BootInstant::now();
    for turn in number.. {
        let url = {
            let urls = urls.lock().unwrap_or_else(PoisonError::into_inner);
            let at = usize::try_from(turn).unwrap_or_default() % urls.len().max(1);
            urls.get(at).cloned().unwrap_or_default()
        };
        let answer = client.post(format!("{url}/v1/intents")).json(&body).send().await;
        match answer {
            Ok(answer) if answer.status() == StatusCode::OK => return true,
            _ if BootInstant::now().since(began) > TRIES_FOR => break,
            _ => tokio::time::sleep(PAUSE).await,
        }
    }
    false
}
