//! The functions of the outbox, as the laws call them; an answer's columns are one text where that reads well.

use tokio_postgres::{Client, Error, types::ToSql};
use uuid::Uuid;

pub const RAIL: &str = "wire";

/// What `enqueue_payment_outbox` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enqueued {
    pub outbox_id: Uuid,
    pub sequence_id: i64,
    pub created_at: String,
    pub state: String,
}

/// A row that is leased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub outbox_id: Uuid,
    pub lease_token: Uuid,
    pub worker: String,
    pub participant: String,
    pub sequence_id: i64,
    pub attempt_count: i32,
}

impl Claim {
    /// The same row, for one who is not `worker`.
    pub fn of(&self, worker: &str) -> Self {
        Self { worker: worker.to_owned(), ..self.clone() }
    }

    /// The same row, under a token that nobody was given.
    pub fn forged(&self) -> Self {
        Self { lease_token: Uuid::new_v4(), ..self.clone() }
    }
}

/// The SQLSTATE of a refusal.
pub fn sqlstate_of(error: &Error) -> &str {
    error.code().unwrap_or_else(|| panic!("not from the server: {error}")).code()
}

/// The SQLSTATE that a call ended with; `00000` where it was not refused.
pub fn ended<T>(answer: &Result<T, Error>) -> &str {
    answer.as_ref().map_or_else(sqlstate_of, |_| "00000")
}

pub async fn try_enqueue(
    client: &Client,
    participant: &str,
    rail: &str,
    key: &str,
) -> Result<Enqueued, Error> {
    let call = "SELECT outbox_id, sequence_id, created_at::text, state
        FROM public.enqueue_payment_outbox($1, $2, $1, $3, '{\"amount\": 1}')";
    let row = client.query_one(call, &[&key, &participant, &rail]).await?;
    Ok(Enqueued {
        outbox_id: row.get("outbox_id"),
        sequence_id: row.get("sequence_id"),
        created_at: row.get("created_at"),
        state: row.get("state"),
    })
}

/// Enqueues the instruction of this key.
pub async fn enqueue(client: &Client, participant: &str, key: &str) -> Enqueued {
    try_enqueue(client, participant, RAIL, key).await.unwrap()
}

/// Enqueues instructions of (participant, key) in one batch: `result number state` of each.
pub async fn enqueue_all(client: &Client, instructions: &[(&str, &str)]) -> Vec<String> {
    let call = "SELECT concat_ws(' ', result, sequence_id, state)
        FROM public.enqueue_payment_outbox_batch(
            $1, $2, $1, array_fill('wire'::text, ARRAY[cardinality($1::text[])]),
            array_fill('{}'::jsonb, ARRAY[cardinality($1::text[])])
        )";
    let keys: Vec<_> = instructions.iter().map(|(_, key)| *key).collect();
    let participants: Vec<_> = instructions.iter().map(|(participant, _)| *participant).collect();
    texts(client, call, &[&keys, &participants]).await.unwrap()
}

/// Claims up to `most` rows for `seconds`.
pub async fn claim_for(client: &Client, worker: &str, most: i32, seconds: i32) -> Vec<Claim> {
    let call = "SELECT outbox_id, lease_token, participant_id, sequence_id, attempt_count
        FROM public.claim_outbox_batch($1, $2, $3)";
    let rows = client.query(call, &[&most, &worker, &seconds]).await.unwrap();
    let claim = |row: &tokio_postgres::Row| Claim {
        outbox_id: row.get("outbox_id"),
        lease_token: row.get("lease_token"),
        worker: worker.to_owned(),
        participant: row.get("participant_id"),
        sequence_id: row.get("sequence_id"),
        attempt_count: row.get("attempt_count"),
    };
    rows.iter().map(claim).collect()
}

/// Claims up to `most` rows for longer than a test lasts.
pub async fn claim(client: &Client, worker: &str, most: i32) -> Vec<Claim> {
    claim_for(client, worker, most, 600).await
}

/// Claims the one row that is there to be claimed.
pub async fn claim_only(client: &Client, worker: &str) -> Claim {
    let mut claims = claim(client, worker, 2).await;
    assert_eq!(claims.len(), 1, "{claims:?}");
    claims.remove(0)
}

/// Enqueues this many instructions of one participant, and has all of them leased, by `outbox_id`.
pub async fn leased(admin: &Client, worker: &str, count: usize) -> Vec<Claim> {
    for number in 0..count {
        enqueue(admin, "p", &format!("leased-{number}")).await;
    }
    let mut claims = claim(admin, worker, 1000).await;
    assert_eq!(claims.len(), count);
    claims.sort_by_key(|claim| claim.outbox_id);
    claims
}

/// Tells an outcome, to be tried again after `delay` seconds: `number STATE`.
pub async fn complete_after(
    client: &Client,
    claim: &Claim,
    state: Option<&str>,
    delay: i32,
) -> Result<String, Error> {
    let call = "SELECT concat_ws(' ', attempt_no, state) FROM public.complete_outbox_attempt(
            $1, $2, $3, $4::text::public.outbox_attempt_state, p_retry_delay_seconds => $5
        )";
    let told: [&(dyn ToSql + Sync); 5] =
        [&claim.outbox_id, &claim.lease_token, &claim.worker, &state, &delay];
    Ok(client.query_one(call, &told).await?.get(0))
}

/// Tells an outcome; where it may be tried again, at once.
pub async fn complete(client: &Client, claim: &Claim, state: &str) -> Result<String, Error> {
    complete_after(client, claim, Some(state), 0).await
}

/// Tells many outcomes, all by the first one's worker: `result number STATE` of each.
pub async fn complete_all(client: &Client, told: &[(&Claim, &str)]) -> Vec<String> {
    let call =
        "SELECT concat_ws(' ', result, attempt_no, state) FROM public.complete_outbox_attempts(
            $1, $2, $3, $4::text[]::public.outbox_attempt_state[],
            p_retry_delays_seconds => array_fill(0, ARRAY[cardinality($2::uuid[])])
        )";
    let claims: Vec<_> = told.iter().map(|(claim, _)| *claim).collect();
    let states: Vec<_> = told.iter().map(|(_, state)| *state).collect();
    let (ids, tokens) = keys_of(&claims);
    texts(client, call, &[&claims[0].worker, &ids, &tokens, &states]).await.unwrap()
}

/// Makes leases last `seconds` from now: the result of each.
pub async fn extend(client: &Client, claims: &[&Claim], seconds: i32) -> Vec<String> {
    let call = "SELECT result FROM public.extend_outbox_leases($1, $2, $3, $4)";
    let (ids, tokens) = keys_of(claims);
    texts(client, call, &[&claims[0].worker, &ids, &tokens, &seconds]).await.unwrap()
}

/// Gives rows back: the result of each.
pub async fn release(client: &Client, claims: &[&Claim]) -> Vec<String> {
    let call = "SELECT result FROM public.release_outbox_leases($1, $2, $3)";
    let (ids, tokens) = keys_of(claims);
    texts(client, call, &[&claims[0].worker, &ids, &tokens]).await.unwrap()
}

/// Takes back what has expired: the row and the number of the attempt that was lost.
pub async fn repair(client: &Client) -> Vec<(Uuid, i32)> {
    let call = "SELECT outbox_id, attempt_no FROM public.repair_expired_leases(100, 'repairer')";
    let rows = client.query(call, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn keys_of(claims: &[&Claim]) -> (Vec<Uuid>, Vec<Uuid>) {
    claims.iter().map(|claim| (claim.outbox_id, claim.lease_token)).unzip()
}

async fn texts(
    client: &Client,
    call: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<String>, Error> {
    Ok(client.query(call, parameters).await?.iter().map(|row| row.get(0)).collect())
}
