//! By HTTP: the node that answers there.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use reqwest::{Client, Method, Response, StatusCode, Url};
use serde::Deserialize;

use super::{Drain, Seen};
use crate::output::print;

const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize)]
struct RoleView {
    node_id: String,
    role: String,
    leader_epoch: i64,
    leader_id: Option<String>,
}

struct Node {
    client: Client,
    url: Url,
    secret: Option<String>,
}

pub async fn drain(drain: &Drain, url: &Url, token_file: Option<&Path>) -> Result<()> {
    let secret = token_file.map(tenure_http::read_secret).transpose()?;
    let client = Client::builder().timeout(PATIENCE).build().context("no HTTP client")?;
    let node = Node { client, url: url.clone(), secret };
    let before = node.role().await?;
    if drain.undo {
        node.send(Method::DELETE, "drain").await?;
        return print(&format!("{} contends again\n", before.node_id));
    }
    node.send(Method::POST, "drain").await?;
    if before.role != "LEADER" {
        let node_id = before.node_id;
        return print(&format!("{node_id} does not lead, and stays out from now on\n"));
    }
    let asked = Seen { holder: before.node_id, epoch: before.leader_epoch, goes_on: true };
    let look = async || {
        let role = node.role().await?;
        let leads = matches!(role.role.as_str(), "LEADER" | "DRAINING");
        let goes_on =
            leads || role.leader_id.as_ref().is_some_and(|leader| *leader != asked.holder);
        Ok(Seen {
            holder: role.leader_id.unwrap_or(role.node_id),
            epoch: role.leader_epoch,
            goes_on,
        })
    };
    drain.follow(&asked, look).await
}

impl Node {
    async fn role(&self) -> Result<RoleView> {
        let answer = self.send(Method::GET, "role").await?;
        answer.json().await.with_context(|| format!("{} is no node of tenure", self.shown()))
    }

    async fn send(&self, method: Method, path: &str) -> Result<Response> {
        let mut url = self.url.clone();
        url.set_path(&format!("{}/{path}", url.path().trim_end_matches('/')));
        let mut request = self.client.request(method, url);
        if let Some(secret) = &self.secret {
            request = request.bearer_auth(secret);
        }
        let answer = request.send().await.map_err(reqwest::Error::without_url);
        let answer = answer.with_context(|| format!("cannot reach {}", self.shown()))?;
        match answer.status() {
            status if status.is_success() => Ok(answer),
            StatusCode::UNAUTHORIZED => bail!("{} wants its token (--token-file)", self.shown()),
            status => {
                let told = answer.text().await.unwrap_or_default();
                bail!("{} answered {status}: {}", self.shown(), told.trim())
            }
        }
    }

    /// Without what may be a password.
    fn shown(&self) -> String {
        let mut url = self.url.clone();
        // A URL that cannot have a user has no password either.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.to_string()
    }
}
