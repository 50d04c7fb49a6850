//! A steady stream of intents, sent as a good client does: again, to another instance, until one has it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use reqwest::{Client, StatusCode};
use serde_json::json;
use tenure::BootInstant;
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
pub struct Load {
    /// The ids that an instance has confirmed.
    submitted: Arc<Mutex<Vec<String>>>,
    stop: CancellationToken,
    clients: TaskTracker,
}

impl Load {
    pub fn start(rate: u32, urls: Urls) -> Self {
        let (submitted, stop) = (Arc::<Mutex<Vec<String>>>::default(), CancellationToken::new());
        let clients = TaskTracker::new();
        let stream = stream(rate, urls, Arc::clone(&submitted), stop.clone(), clients.clone());
        clients.spawn(stream);
        Self { submitted, stop, clients }
    }

    pub fn submitted(&self) -> usize {
        self.submitted.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// No new intents; those under way are awaited. The ids that were confirmed.
    pub async fn stop(self) -> Vec<String> {
        self.stop.cancel();
        self.clients.close();
        self.clients.wait().await;
        std::mem::take(&mut *self.submitted.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn stream(
    rate: u32,
    urls: Urls,
    submitted: Arc<Mutex<Vec<String>>>,
    stop: CancellationToken,
    clients: TaskTracker,
) {
    let client = Client::builder().timeout(ANSWERS_WITHIN).build().unwrap_or_default();
    let run = std::process::id();
    let mut next = tokio::time::interval(Duration::from_secs(1) / rate);
    next.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0_u64.. {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = next.tick() => {}
        }
        let id = format!("demo-{run}-{number}");
        let (client, urls, submitted) = (client.clone(), Arc::clone(&urls), Arc::clone(&submitted));
        clients.spawn(async move {
            if submit(&client, &urls, &id, number).await {
                submitted.lock().unwrap_or_else(PoisonError::into_inner).push(id);
            }
        });
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
