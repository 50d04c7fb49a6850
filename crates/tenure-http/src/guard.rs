//! Who may change something.
//!
//! With a token: whoever brings it. Without one: whoever is on this machine, if the server listens on
//! loopback alone; but no web page that a browser on this machine happens to show.

use std::net::IpAddr;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::{address, token::Token};

/// The rule of one server.
#[derive(Clone, Debug)]
pub enum Guard {
    /// Whoever brings the token.
    Bearer(Token),
    /// Whoever is on this machine.
    ThisMachine,
    /// Nobody: other machines reach the server, and there is no token.
    Nobody,
    /// Whoever reaches the server: its operator has said so.
    Anybody,
}

/// Why somebody may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A token is asked for, and was not brought.
    NoToken,
    /// Other machines reach the server, and there is no token.
    NeedsToken,
    /// A page of another site asks, or a name that is not ours was used.
    OtherSite,
}

impl Guard {
    /// The rule of a server that listens on this address.
    #[must_use]
    pub fn new(token: Option<Token>, ip: IpAddr) -> Self {
        match token {
            Some(token) => Self::Bearer(token),
            None if address::is_loopback(ip) => Self::ThisMachine,
            None => Self::Nobody,
        }
    }

    /// Whether a request with these headers may.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        match self {
            Self::Bearer(token) => {
                let brought =
                    headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
                let is_let_in = brought.is_some_and(|header| token.is_brought_by(header));
                is_let_in.then_some(()).ok_or(Refusal::NoToken)
            }
            Self::Nobody => Err(Refusal::NeedsToken),
            Self::ThisMachine if is_from_elsewhere(headers) => Err(Refusal::OtherSite),
            Self::ThisMachine | Self::Anybody => Ok(()),
        }
    }
}

/// A page of another site says so itself, and a name that was made to point here is not ours.
fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let value =
        |name: header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = value(header::HOST);
    let is_here = host.is_none_or(|host| {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let name = name.trim_matches(['[', ']']);
        name == "localhost" || name.parse().is_ok_and(address::is_loopback)
    });
    let is_ours = value(header::ORIGIN).is_none_or(|origin| {
        origin.split_once("://").is_some_and(|(_, origin)| Some(origin) == host)
    });
    !is_here || !is_ours
}

impl Refusal {
    /// In a sentence.
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::NoToken => "bring the token: Authorization: Bearer …",
            Self::NeedsToken => {
                "this server is reached from other machines and has no token: start it with --token-file"
            }
            Self::OtherSite => "the request comes from another site",
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let told = format!("{}\n", self.message());
        match self {
            Self::NoToken => {
                let asked = [(header::WWW_AUTHENTICATE, "Bearer")];
                (StatusCode::UNAUTHORIZED, asked, told).into_response()
            }
            Self::NeedsToken | Self::OtherSite => (StatusCode::FORBIDDEN, told).into_response(),
        }
    }
}

/// Lets a request through, or says why not.
pub async fn keep_out(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    match guard.check(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (header::HeaderName::from_static(name), value.parse().unwrap()));
        pairs.collect()
    }

    fn guard(token: Option<&str>, ip: &str) -> Guard {
        Guard::new(token.map(Token::of), ip.parse().unwrap())
    }

    #[test]
    fn on_loopback_this_machine_may_and_other_sites_may_not() {
        let guard = guard(None, "127.0.0.1");
        for may in [
            &[][..],
            &[("host", "localhost:80")],
            &[("host", "127.0.0.1:80"), ("origin", "http://127.0.0.1:80")],
            &[("host", "[::1]:80")],
        ] {
            assert_eq!(guard.check(&headers(may)), Ok(()), "{may:?}");
        }
        for may_not in [
            &[("host", "localhost:80"), ("origin", "https://evil.example")][..],
            &[("host", "localhost:80"), ("origin", "null")],
            &[("host", "rebound.example:80")],
            &[("host", "10.0.0.1:80")],
        ] {
            assert_eq!(guard.check(&headers(may_not)), Err(Refusal::OtherSite), "{may_not:?}");
        }
    }

    #[test]
    fn elsewhere_only_a_token_lets_in() {
        let from_here = headers(&[("host", "localhost:80")]);
        assert_eq!(guard(None, "0.0.0.0").check(&from_here), Err(Refusal::NeedsToken));
        for ip in ["0.0.0.0", "127.0.0.1"] {
            let guard = guard(Some("correct-horse-battery"), ip);
            assert_eq!(guard.check(&from_here), Err(Refusal::NoToken));
            let brings = headers(&[("authorization", "Bearer correct-horse-battery")]);
            assert_eq!(guard.check(&brings), Ok(()));
        }
    }
}
