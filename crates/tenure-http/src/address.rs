//! Where a server listens: on loopback, unless it is told otherwise.

use std::{fmt, net::IpAddr, str::FromStr};

/// A host and a port, as they were typed. A port alone is on loopback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
}

/// Why an address is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no address: write PORT for loopback, or HOST:PORT, say 0.0.0.0:8080 or [::1]:8080"
)]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(typed: &str) -> Result<Self, AddressError> {
        let refused = || AddressError(typed.to_owned());
        let (host, port) = match typed.rsplit_once(':') {
            None => ("127.0.0.1", typed),
            Some((host, port)) => (host, port),
        };
        let host = match host.strip_prefix('[').map(|host| host.strip_suffix(']')) {
            Some(Some(host)) if host.contains(':') => host,
            None if !host.is_empty() && !host.contains(':') => host,
            _ => return Err(refused()),
        };
        let port = port.parse().map_err(|_| refused())?;
        Ok(Self { host: host.to_owned(), port })
    }
}

impl Address {
    /// The host, as it was typed.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Whether only this machine can reach it.
pub(crate) fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_on_loopback() {
        let read = |typed: &str| typed.parse::<Address>().map(|address| address.to_string());
        assert_eq!(read("8080").unwrap(), "127.0.0.1:8080");
        assert_eq!(read("0.0.0.0:80").unwrap(), "0.0.0.0:80");
        assert_eq!(read("[::1]:80").unwrap(), "[::1]:80");
        assert_eq!(read("localhost:0").unwrap(), "localhost:0");
    }

    #[test]
    fn what_is_no_address_is_refused_with_its_words() {
        for typed in ["", ":80", "host:", "host:x", "::1:80", "[::1]", "host:99999", "[host]:80"] {
            let refused = typed.parse::<Address>().unwrap_err().to_string();
            assert!(refused.starts_with(&format!("'{typed}' is no address")), "{refused}");
        }
    }

    #[test]
    fn only_this_machine_reaches_loopback() {
        let ip = |text: &str| is_loopback(text.parse().unwrap());
        assert!(ip("127.0.0.1") && ip("127.9.9.9") && ip("::1") && ip("::ffff:127.0.0.1"));
        assert!(!ip("0.0.0.0") && !ip("::") && !ip("10.0.0.1"));
    }
}
