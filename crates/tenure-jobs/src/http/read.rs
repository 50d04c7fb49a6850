//! What requests say, checked.

use axum::{
    body::Bytes,
    extract::{
        Path, RawQuery,
        rejection::{BytesRejection, PathRejection},
    },
    http::StatusCode,
};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned},
};
use serde_json::{Number, value::RawValue};
use tenure::Epoch;

use super::{
    Api, LARGEST_REQUEST, LARGEST_SMALL_VALUE, LARGEST_VALUE,
    error::{ApiError, Stale, StaleFields},
};
use crate::{controller::Controller, job::DEFAULT_NAMESPACE};

/// The longest name of anything, in characters.
const LONGEST_NAME: usize = 200;
/// How many leases an agent may work on.
const MOST_LEASES: usize = 4_096;

/// Up to here a float is a whole number exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A body, as far as it could be read.
pub(super) type Body = Result<Bytes, BytesRejection>;
/// A part of the path, as far as it could be read.
pub(super) type Name = Result<Path<String>, PathRejection>;

/// Whoever changes something must ask the leader: what it sent is not even looked at elsewhere. The leader's term.
pub(super) fn require_leader(api: &Api) -> Result<Epoch, ApiError> {
    require_role(api, &["LEADER"])
}

/// Whoever reports may ask a leader that hands over, too.
pub(super) fn require_term(api: &Api) -> Result<Epoch, ApiError> {
    require_role(api, &["LEADER", "DRAINING"])
}

fn require_role(api: &Api, roles: &[&str]) -> Result<Epoch, ApiError> {
    let Controller { desk, stand, .. } = &api.controller;
    let term = desk.epoch().filter(|_| roles.contains(&stand.role().role));
    term.ok_or_else(|| ApiError::not_leader(stand))
}

/// What is named must be the leader's term.
pub(super) fn require_epoch(api: &Api, named: Option<i64>, term: Epoch) -> Result<(), ApiError> {
    match named.is_none_or(|named| named == term.get()) {
        true => Ok(()),
        false => Err(ApiError::stale(StaleFields::new(Stale::Leader, &api.controller.stand))),
    }
}

/// A JSON object.
pub(super) fn object<T: DeserializeOwned>(body: Body) -> Result<T, ApiError> {
    let bytes = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::too_large("the request"),
        _ => ApiError::invalid("the body could not be read"),
    })?;
    if bytes.len() > LARGEST_REQUEST {
        return Err(ApiError::too_large("the request"));
    }
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(ApiError::invalid("the body must be a JSON object"));
    }
    let mut reader = serde_json::Deserializer::from_slice(&bytes);
    let read = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let why = error.into_inner();
        match path.as_str() {
            "." => ApiError::invalid(why.to_string()),
            path => ApiError::invalid(format!("{path}: {why}")),
        }
    })?;
    reader.end().map_err(|error| ApiError::invalid(error.to_string()))?;
    Ok(read)
}

/// A whole number, however it is written: to JSON `3.0` is 3.
pub(super) fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(from)? else { return Ok(None) };
    let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < EXACT);
    match number.as_i64().or(float.map(|float| float as i64)) {
        Some(whole) => Ok(Some(whole)),
        None => Err(de::Error::custom(format_args!("{number} is not a whole number of 64 bits"))),
    }
}

/// A value that was sent, be it `null`; without this, `null` is as if nothing was.
pub(super) fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

/// A number within bounds; one that is not is refused like a field that is missing.
pub(super) fn within(
    what: &str,
    given: Option<i64>,
    bounds: std::ops::RangeInclusive<i64>,
) -> Result<Option<i64>, ApiError> {
    match given.is_none_or(|given| bounds.contains(&given)) {
        true => Ok(given),
        false => {
            let (least, most) = bounds.into_inner();
            Err(ApiError::out_of_range(format!("{what} must be {least} to {most}")))
        }
    }
}

/// A name: not empty, not too long, and nothing in it that a person cannot see.
pub(super) fn name(what: &str, name: String) -> Result<String, ApiError> {
    let is_fit = !name.is_empty()
        && name.chars().count() <= LONGEST_NAME
        && !name.chars().any(char::is_control);
    match is_fit {
        true => Ok(name),
        false => Err(ApiError::invalid(format!(
            "{what} must have 1 to {LONGEST_NAME} characters, none of them a control character"
        ))),
    }
}

pub(super) fn required_name(what: &str, given: Option<String>) -> Result<String, ApiError> {
    name(what, given.ok_or_else(|| ApiError::missing(what))?)
}

pub(super) fn optional_name(what: &str, given: Option<String>) -> Result<Option<String>, ApiError> {
    given.map(|given| name(what, given)).transpose()
}

pub(super) fn namespace(given: Option<String>) -> Result<String, ApiError> {
    name("namespace", given.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()))
}

/// The leases that an agent works on.
pub(super) fn leases(named: Option<Vec<String>>) -> Result<Option<Vec<String>>, ApiError> {
    if named.as_ref().is_some_and(|named| named.len() > MOST_LEASES) {
        return Err(ApiError::invalid(format!("leases must be {MOST_LEASES} at most")));
    }
    named.map(|named| named.into_iter().map(|lease| name("a lease", lease)).collect()).transpose()
}

/// A value that is kept as it was sent; what was not sent is `null`.
pub(super) fn value(what: &str, given: Option<Box<RawValue>>) -> Result<Box<RawValue>, ApiError> {
    value_up_to(LARGEST_VALUE, what, given)
}

/// The same, for what is written again and again.
pub(super) fn small_value(
    what: &str,
    given: Option<Box<RawValue>>,
) -> Result<Box<RawValue>, ApiError> {
    value_up_to(LARGEST_SMALL_VALUE, what, given)
}

fn value_up_to(
    largest: usize,
    what: &str,
    given: Option<Box<RawValue>>,
) -> Result<Box<RawValue>, ApiError> {
    let value = given.unwrap_or_else(|| RawValue::NULL.to_owned());
    match value.get().len() <= largest {
        true => Ok(value),
        false => Err(ApiError::too_large(what)),
    }
}

/// What stands behind the question mark; a name twice is refused.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn read(RawQuery(query): RawQuery) -> Self {
        let query = query.unwrap_or_default();
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        });
        Self(pairs.collect())
    }

    pub(super) fn get(&self, name: &str) -> Result<Option<String>, ApiError> {
        let mut named = self.0.iter().filter(|(known, _)| known == name);
        match (named.next(), named.next()) {
            (first, None) => Ok(first.map(|(_, value)| value.clone())),
            _ => Err(ApiError::invalid(format!("{name} is there twice"))),
        }
    }

    pub(super) fn namespace(&self) -> Result<String, ApiError> {
        namespace(self.get("namespace")?)
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let refused = || ApiError::invalid(format!("{name} must be a whole number"));
        self.get(name)?.map(|value| value.parse().map_err(|_| refused())).transpose()
    }
}

/// Percent-decoded; a plus is a space.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (bytes[at], hex) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                at += 2;
            }
            (b'+', _) => decoded.push(b' '),
            (byte, _) => decoded.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
