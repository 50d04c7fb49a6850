//! From a POST to a follower to the leader's call of the gateway.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use axum::{Json, Router, extract::State, http::HeaderMap, routing::post};
use reqwest::{Client, StatusCode};
use serde_json::json;
use tenure::BootInstant;
use tenure_testkit::{eventually, secs};
use tokio::sync::mpsc;

use super::{postgres, served::Served, targets};
use crate::figures::{heading, ms, spread};

const TRIALS: usize = 300;

type Calls = mpsc::UnboundedSender<(String, BootInstant)>;

/// Says when it was called, and for what.
async fn gateway(called: Calls) -> Result<String> {
    let answer = async |State(called): State<Arc<Calls>>, headers: HeaderMap| {
        let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok());
        let _ = called.send((key.unwrap_or_default().to_owned(), BootInstant::now()));
        Json(json!({"status": "accepted"}))
    };
    let routes = Router::new().route("/sms/send", post(answer)).with_state(Arc::new(called));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, routes).await });
    Ok(url)
}

pub async fn run() -> Result<()> {
    heading(&format!(
        "submissions, from a POST to a follower to the leader's call of the gateway, {TRIALS} trials"
    ));
    let (postgres, _client) = postgres().await?;
    let (called, mut calls) = mpsc::unbounded_channel();
    let folder = tempfile::tempdir()?;
    let registry = folder.path().join("targets.json");
    std::fs::write(&registry, targets(&gateway(called).await?))?;
    let client = Client::new();
    let leader = Served::ours(&postgres, &registry, &["--schedule-refresh-interval", "1h"])?;
    eventually("it leads", secs(30), async || {
        let asked = client.get(format!("{}/leader", leader.url)).send().await.ok()?;
        (asked.status() == StatusCode::OK).then_some(())
    })
    .await;
    let follower = Served::ours(&postgres, &registry, &[])?;
    eventually("it serves", secs(30), async || {
        client.get(format!("{}/healthz", follower.url)).send().await.ok()
    })
    .await;
    let mut times = Vec::new();
    for trial in 0..TRIALS {
        let body =
            json!({"intentId": format!("p-{trial}"), "submissionTarget": "otp", "payload": 1});
        let began = BootInstant::now();
        let answer = client.post(format!("{}/v1/intents", follower.url)).json(&body).send().await?;
        answer.error_for_status()?;
        let (key, at) = calls.recv().await.context("a call")?;
        anyhow::ensure!(key == format!("p-{trial}:1"), "{key}");
        times.push(ms(at.since(began)));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("  {:<44} {} (below 50)", "told by a notification", spread(&mut times));
    Ok(())
}
