//! Ports that no two servers of the kit are given, in whatever test processes they run.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use anyhow::{Context, Result};

/// A loopback port, ours until this value is dropped or the process ends.
///
/// A server stops and starts again, so it cannot hold its port itself. The UDP port of the same
/// number is held instead, which takes nothing away and cannot be left behind.
pub struct Port {
    number: u16,
    _claim: UdpSocket,
}

impl Port {
    /// Claims a port on which nobody listens.
    ///
    /// It lies below the range the kernel takes for outgoing connections: otherwise a client could
    /// occupy the port of a stopped server.
    pub fn claim() -> Result<Self> {
        (0..100)
            .map(|_| fastrand::u16(10_000..32_000))
            .find_map(Self::claim_number)
            .context("no free loopback port in a hundred tries")
    }

    /// The port.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    fn claim_number(number: u16) -> Option<Self> {
        let claim = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        Some(Self { number, _claim: claim })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_port_is_given_to_nobody_else() {
        let port = Port::claim().unwrap();
        assert!(Port::claim_number(port.number()).is_none());
    }

    #[test]
    fn a_port_that_somebody_listens_on_is_not_claimed() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let number = listener.local_addr().unwrap().port();
        assert!(Port::claim_number(number).is_none());
    }
}
