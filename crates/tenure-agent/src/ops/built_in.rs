//! The ops that need no program: enough to try a controller with.

use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::job::{Outcome, null, raw};

#[derive(Clone, Copy, Debug)]
pub(super) enum BuiltIn {
    Echo,
    Sha256,
    Sleep,
}

/// `{"ms": N}` or `{"seconds": N}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sleep {
    ms: Option<u64>,
    seconds: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    text: String,
}

#[derive(Serialize)]
struct Hash {
    sha256: String,
}

impl BuiltIn {
    pub const ALL: [Self; 3] = [Self::Echo, Self::Sha256, Self::Sleep];

    pub fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Sha256 => "sha256",
            Self::Sleep => "sleep",
        }
    }

    pub async fn run(self, payload: &RawValue) -> Outcome {
        let result = match self {
            Self::Echo => Ok(payload.to_owned()),
            Self::Sha256 => read(payload).map(|Text { text }| hash(&text)),
            Self::Sleep => sleep(payload).await,
        };
        result.map_or_else(Outcome::Failed, Outcome::Succeeded)
    }
}

fn read<T: DeserializeOwned>(payload: &RawValue) -> Result<T, String> {
    serde_json::from_str(payload.get()).map_err(|error| format!("bad payload: {error}"))
}

fn hash(text: &str) -> Box<RawValue> {
    let digest = Sha256::digest(text.as_bytes());
    raw(&Hash { sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect() })
}

async fn sleep(payload: &RawValue) -> Result<Box<RawValue>, String> {
    let duration = match read(payload)? {
        Sleep { ms: Some(ms), seconds: None } => Duration::from_millis(ms),
        Sleep { ms: None, seconds: Some(seconds) } => Duration::try_from_secs_f64(seconds)
            .map_err(|error| format!("bad payload: seconds: {error}"))?,
        _ => return Err(r#"bad payload: either {"ms": N} or {"seconds": N}"#.to_owned()),
    };
    tokio::time::sleep(duration).await;
    Ok(null())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ran(op: BuiltIn, payload: &str) -> Result<String, String> {
        let payload = RawValue::from_string(payload.to_owned()).unwrap();
        match op.run(&payload).await {
            Outcome::Succeeded(result) => Ok(result.get().to_owned()),
            Outcome::Failed(error) => Err(error),
            Outcome::GivenBack => panic!("nobody cut it short"),
        }
    }

    #[tokio::test]
    async fn echo_gives_back_what_it_got_to_the_byte() {
        let payload = r#"{"n": 1.0000000000000000001, "a":[ ]}"#;
        assert_eq!(ran(BuiltIn::Echo, payload).await, Ok(payload.to_owned()));
    }

    #[tokio::test]
    async fn sha256_hashes_a_text() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let hashed = ran(BuiltIn::Sha256, r#"{"text": "abc"}"#).await;
        assert_eq!(hashed, Ok(format!(r#"{{"sha256":"{abc}"}}"#)));
        assert!(ran(BuiltIn::Sha256, "{}").await.unwrap_err().contains("text"));
    }

    #[tokio::test]
    async fn sleep_sleeps_and_refuses_what_is_no_time() {
        assert_eq!(ran(BuiltIn::Sleep, r#"{"ms": 1}"#).await, Ok("null".to_owned()));
        assert_eq!(ran(BuiltIn::Sleep, r#"{"seconds": 0.001}"#).await, Ok("null".to_owned()));
        for payload in
            ["null", "{}", r#"{"ms": -1}"#, r#"{"seconds": -1}"#, r#"{"ms": 1, "seconds": 1}"#]
        {
            assert!(ran(BuiltIn::Sleep, payload).await.unwrap_err().contains("bad payload"));
        }
    }
}
