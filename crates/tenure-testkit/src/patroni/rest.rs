//! Questions to a Patroni.

use std::{net::Ipv4Addr, time::Duration};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::sleep,
};

/// A switchover is answered when it is done.
const ANSWERS_WITHIN: Duration = Duration::from_secs(40);

pub(super) struct Answer {
    pub status: u16,
    pub body: Value,
}

pub(super) async fn get(port: u16, path: &str) -> Result<Answer> {
    ask(port, &format!("GET {path} HTTP/1.0\r\n\r\n")).await
}

pub(super) async fn post(port: u16, path: &str, body: &Value) -> Result<Answer> {
    let body = body.to_string();
    let length = body.len();
    ask(port, &format!("POST {path} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}")).await
}

async fn ask(port: u16, request: &str) -> Result<Answer> {
    tokio::select! {
        answer = exchange(port, request) => answer,
        () = sleep(ANSWERS_WITHIN) => bail!("Patroni does not answer"),
    }
}

async fn exchange(port: u16, request: &str) -> Result<Answer> {
    let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    connection.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer without an end")?;
    let status = head.split(' ').nth(1).context("an answer without a status")?.parse()?;
    // Some answers are a sentence.
    let body = serde_json::from_str(body).unwrap_or_else(|_| body.into());
    Ok(Answer { status, body })
}
