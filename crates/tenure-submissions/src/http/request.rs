//! What a client may ask, and how it is read.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::error::ApiError;
use crate::{intent::LONGEST_ID, object::Object};

const LONGEST_WAIT: u64 = 30;

/// A submission, as the documentation shows it.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code, reason = "it describes what is read by hand below")]
pub(super) struct RequestBody {
    /// The client's own id, up to 200 characters, not all of them blank.
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00]*[^\s\x00][^\x00]*$")]
    intent_id: String,
    /// One of the targets of the registry.
    #[schema(min_length = 1)]
    submission_target: String,
    /// Any JSON, handed to the gateway byte for byte.
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written<'b> {
    intent_id: Option<String>,
    submission_target: Option<String>,
    #[serde(borrow, default, deserialize_with = "as_written")]
    payload: Option<&'b RawValue>,
}

/// `null` is a payload too.
fn as_written<'de: 'b, 'b, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<&'b RawValue>, D::Error> {
    <&'b RawValue>::deserialize(from).map(Some)
}

/// A submission that is well formed.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) intent_id: String,
    pub(super) submission_target: String,
    /// The payload's own bytes; none where there was no payload.
    pub(super) payload: Bytes,
}

impl Request {
    pub(super) fn read(body: &Bytes) -> Result<Self, ApiError> {
        let Object::<Written<'_>>(written) =
            serde_json::from_slice(body).map_err(|_| ApiError::invalid_body())?;
        let given = |text: Option<String>| {
            let text = text.unwrap_or_default().trim().to_owned();
            (!text.is_empty()).then_some(text)
        };
        let (Some(intent_id), Some(submission_target)) =
            (given(written.intent_id), given(written.submission_target))
        else {
            return Err(ApiError::invalid("intentId and submissionTarget are required"));
        };
        if !can_be_an_id(&intent_id) {
            let message = format!("intentId must have at most {LONGEST_ID} characters, and no NUL");
            return Err(ApiError::invalid(&message));
        }
        let payload = written.payload.map(|raw| body.slice_ref(raw.get().as_bytes()));
        Ok(Self { intent_id, submission_target, payload: payload.unwrap_or_default() })
    }
}

pub(super) fn can_be_an_id(text: &str) -> bool {
    text.chars().count() <= LONGEST_ID && !text.contains('\0')
}

/// How long to wait for an outcome, if at all.
pub(super) fn wait_seconds(query: Option<&str>) -> Result<Option<Duration>, ApiError> {
    let pairs = query.unwrap_or_default().split('&');
    let mut values = pairs.filter_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name == "waitSeconds").then_some(value)
    });
    let Some(value) = values.next() else { return Ok(None) };
    if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ApiError::invalid("waitSeconds must be a non-negative integer"));
    }
    // More digits than fit are more than the most.
    let seconds = value.parse().unwrap_or(u64::MAX).min(LONGEST_WAIT);
    Ok((seconds > 0).then(|| Duration::from_secs(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Request, String> {
        Request::read(&Bytes::from(body.to_owned())).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn the_payload_is_kept_byte_for_byte() {
        let request =
            read("{\"intentId\":\" a \",\"submissionTarget\":\"t\\n\",\"payload\":{ \"b\" :1.0}}");
        let request = request.unwrap();
        assert_eq!((request.intent_id.as_str(), request.submission_target.as_str()), ("a", "t"));
        assert_eq!(&request.payload[..], b"{ \"b\" :1.0}");
        let payload = |text: &str| {
            let body = format!("{{\"intentId\":\"a\",\"submissionTarget\":\"t\"{text}}}");
            read(&body).unwrap().payload
        };
        assert_eq!(&payload(",\"payload\": null")[..], b"null");
        assert!(payload("").is_empty());
        assert!(payload(",\"more\": 1").is_empty(), "unknown fields are ignored");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let invalid = "invalid request body";
        let required = "intentId and submissionTarget are required";
        for (body, told) in [
            ("", invalid),
            ("[]", invalid),
            ("{\"intentId\":1}", invalid),
            ("{\"intentId\":\"a\",\"submissionTarget\":\"t\"} x", invalid),
            ("{}", required),
            ("{\"intentId\":\" \",\"submissionTarget\":\"t\"}", required),
            ("{\"intentId\":\"a\",\"submissionTarget\":null}", required),
        ] {
            assert_eq!(read(body).unwrap_err(), told, "{body}");
        }
        let id = |id: &str| read(&format!("{{\"intentId\":\"{id}\",\"submissionTarget\":\"t\"}}"));
        assert!(id(&"ä".repeat(200)).is_ok());
        assert!(id(&"a".repeat(201)).unwrap_err().contains("200 characters"));
        assert!(id("a\\u0000b").unwrap_err().contains("NUL"));
    }

    #[test]
    fn a_wait_is_a_number_up_to_thirty() {
        let secs = |count| Ok(Some(Duration::from_secs(count)));
        let read =
            |query: &str| wait_seconds(Some(query)).map_err(|error| error.message().to_owned());
        assert_eq!(wait_seconds(None).ok(), Some(None));
        assert_eq!(read("other=1"), Ok(None));
        assert_eq!((read("waitSeconds=0"), read("waitSeconds=7")), (Ok(None), secs(7)));
        assert_eq!(read("a=b&waitSeconds=31"), secs(30));
        assert_eq!(read("waitSeconds=99999999999999999999999"), secs(30));
        for wrong in
            ["waitSeconds=", "waitSeconds", "waitSeconds=-1", "waitSeconds=+1", "waitSeconds=1.5"]
        {
            assert!(read(wrong).unwrap_err().contains("non-negative integer"), "{wrong}");
        }
    }
}
