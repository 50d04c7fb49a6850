//! What is led, by whom, and for the how-manieth time.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What is led: at most one holder acts in a scope at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(Arc<str>);

impl Scope {
    /// The longest scope name; a lease row takes shorter ones only (see the lock's documentation).
    pub const MAX_CHARS: usize = 200;

    /// Checks a name: not blank, no control characters, at most [`Scope::MAX_CHARS`] characters.
    pub fn new(name: impl AsRef<str>) -> Result<Self, NameError> {
        checked("scope", name.as_ref(), Self::MAX_CHARS).map(Self)
    }

    /// The scope of one provider's leader: `storagehub:<network>:<msp_account>:msp-leader`.
    pub fn of_provider(network: &str, msp_account: &str) -> Result<Self, NameError> {
        Self::new(format!("storagehub:{network}:{msp_account}:msp-leader"))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The 64-bit key of an advisory lock: the first 8 bytes of SHA-256 of the name, big-endian.
    #[must_use]
    pub fn key(&self) -> i64 {
        let digest = Sha256::digest(self.0.as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        i64::from_be_bytes(first)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who contends and holds: `holder_id`, `holder_identity` and `node_id` at the edges.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId(Arc<str>);

impl HolderId {
    /// The longest identity; a lease row takes shorter ones only.
    pub const MAX_CHARS: usize = 255;

    /// An identity as configured, stored and shown as it is.
    pub fn new(id: impl AsRef<str>) -> Result<Self, NameError> {
        checked("holder id", id.as_ref(), Self::MAX_CHARS).map(Self)
    }

    /// A fresh identity, `<hostname>-<pid>-<random>`: no two starts share one.
    #[must_use]
    pub fn fresh() -> Self {
        let random = uuid::Uuid::new_v4().simple().to_string();
        Self(format!("{}-{}-{}", hostname(), std::process::id(), &random[..12]).into())
    }

    /// A fresh identity of one provider: `<network>-<msp_account>-<hostname>-<pid>-<uuid4>`.
    pub fn fresh_of_provider(network: &str, msp_account: &str) -> Result<Self, NameError> {
        let (host, pid, random) = (hostname(), std::process::id(), uuid::Uuid::new_v4());
        Self::new(format!("{network}-{msp_account}-{host}-{pid}-{random}"))
    }

    /// The identity as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of a term: the fencing token. Within a scope it only ever grows.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(i64);

impl Epoch {
    /// Before the first term.
    pub const ZERO: Self = Self(0);

    /// The epoch with this number.
    #[must_use]
    pub const fn new(number: i64) -> Self {
        Self(number)
    }

    /// The number itself, as it stands in every column and header.
    #[inline]
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The epoch after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A numbered period in which one holder may act in one scope.
///
/// A term comes only from winning one: from [`crate::LeaderToken::term`] or from an election's work.
/// Whatever changes the state of execution takes a `&Term`, so that nobody can forget the fence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    scope: Scope,
    holder: HolderId,
    epoch: Epoch,
}

impl Term {
    /// For the election, for locks, and for tests of both: a term that a lock has granted.
    #[must_use]
    pub fn granted(scope: Scope, holder: HolderId, epoch: Epoch) -> Self {
        Self { scope, holder, epoch }
    }

    /// What is led.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Who leads.
    #[must_use]
    pub fn holder(&self) -> &HolderId {
        &self.holder
    }

    /// The fencing token.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "term {} of {} in {}", self.epoch, self.holder, self.scope)
    }
}

/// A scope or holder id that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing but white space.
    #[error("{what} must not be blank")]
    Blank {
        /// Which name.
        what: &'static str,
    },
    /// Longer than the column that holds it.
    #[error("{what} has {chars} characters, at most {max} fit")]
    TooLong {
        /// Which name.
        what: &'static str,
        /// How many it has.
        chars: usize,
        /// How many fit.
        max: usize,
    },
    /// A control character, which no database stores and no log shows.
    #[error("{what} {name:?} holds a control character")]
    Control {
        /// Which name.
        what: &'static str,
        /// The name.
        name: String,
    },
}

fn checked(what: &'static str, name: &str, max: usize) -> Result<Arc<str>, NameError> {
    if name.trim().is_empty() {
        return Err(NameError::Blank { what });
    }
    if name.chars().any(char::is_control) {
        return Err(NameError::Control { what, name: name.to_owned() });
    }
    fits(what, name, max)?;
    Ok(name.into())
}

/// Refuses a name that is longer than a lock's column.
pub(crate) fn fits(what: &'static str, name: &str, max: usize) -> Result<(), NameError> {
    let chars = name.chars().count();
    if chars > max {
        return Err(NameError::TooLong { what, chars, max });
    }
    Ok(())
}

fn hostname() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_keys_match_the_documented_vectors() {
        let key = |name: &str| Scope::new(name).unwrap().key();
        assert_eq!(key("storagehub:testnet:alice:msp-leader"), VECTOR_ALICE);
        assert_eq!(key("billing"), VECTOR_BILLING);
    }

    const VECTOR_ALICE: i64 = -3_089_946_711_390_542_100;
    const VECTOR_BILLING: i64 = 906_850_720_199_613_079;

    #[test]
    fn two_fresh_identities_differ() {
        assert_ne!(HolderId::fresh(), HolderId::fresh());
        let (one, two) = (
            HolderId::fresh_of_provider("testnet", "alice").unwrap(),
            HolderId::fresh_of_provider("testnet", "alice").unwrap(),
        );
        assert_ne!(one, two);
        assert!(one.as_str().starts_with("testnet-alice-"));
    }

    #[test]
    fn a_configured_identity_is_kept_as_it_is() {
        assert_eq!(HolderId::new(" Node 7 ").unwrap().as_str(), " Node 7 ");
    }

    #[test]
    fn unusable_names_are_refused_by_name() {
        assert_eq!(Scope::new("  ").unwrap_err().to_string(), "scope must not be blank");
        assert_eq!(
            HolderId::new("x".repeat(256)).unwrap_err().to_string(),
            "holder id has 256 characters, at most 255 fit"
        );
        assert!(Scope::new("a\0b").unwrap_err().to_string().contains("control character"));
    }
}
