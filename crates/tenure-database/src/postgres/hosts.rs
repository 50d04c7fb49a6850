//! The places that a URL names, and the first of them that serves.
//!
//! They are asked in the URL's order. One that refuses, or is a standby where the URL wants a primary, costs
//! nothing: the next is asked at once. One that is silent (a machine without power, a server that stands still,
//! a network that swallows everything) must not use up the time of those after it, and need not be given up
//! either: after its share of the time the next is asked beside it. The driver gives up on a place that does not
//! *accept*, with `connect_timeout`; one that accepts and then says nothing would keep it for ever.

use std::{fmt, io, net::IpAddr, os::fd::OwnedFd};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio_postgres::{
    Config,
    config::{Host, LoadBalanceHosts, TargetSessionAttrs},
};

use super::{PostgresUrl, Session};
use crate::{DatabaseError, Deadline, error};

const DEFAULT_PORT: u16 = 5432;

/// One server of a URL.
pub(super) struct Place {
    pub(super) host: Host,
    /// Where the name need not be looked up.
    pub(super) address: Option<IpAddr>,
    pub(super) port: u16,
}

impl PostgresUrl {
    pub(super) async fn first_that_answers(
        &self,
        deadline: Deadline,
    ) -> Result<(Session, OwnedFd), DatabaseError> {
        let mut places = places(self.config());
        if self.config().get_load_balance_hosts() == LoadBalanceHosts::Random {
            fastrand::shuffle(&mut places);
        }
        let mut to_ask = places.into_iter();
        let (mut asked, mut failed) = (FuturesUnordered::new(), Vec::new());
        loop {
            let share = deadline.share(to_ask.len());
            asked.extend(to_ask.next().map(|place| self.ask(place)));
            let answered = tokio::select! {
                answered = asked.next() => answered,
                () = share, if to_ask.len() > 0 => continue,
            };
            match answered {
                Some(Ok(connected)) => return Ok(connected),
                Some(Err(failure)) => failed.push(failure),
                None => return Err(self.nobody_serves(failed)),
            }
        }
    }

    async fn ask(&self, place: Place) -> Result<(Session, OwnedFd), (Place, DatabaseError)> {
        let connecting = async {
            let connected = self.connect_to(&place).await?;
            self.check_attributes(&connected.0).await?;
            Ok(connected)
        };
        let connected = match self.config().get_connect_timeout() {
            Some(limit) => Deadline::after(*limit).run(connecting).await,
            None => connecting.await,
        };
        connected.map_err(|error| (place, error))
    }

    /// Refuses a standby where the URL wants a primary, and the other way round.
    async fn check_attributes(&self, session: &Session) -> Result<(), DatabaseError> {
        let (unfit, is) = match self.config().get_target_session_attrs() {
            TargetSessionAttrs::ReadWrite => ("on", "it takes no writes"),
            TargetSessionAttrs::ReadOnly => ("off", "it takes writes"),
            _ => return Ok(()),
        };
        let answer = session.query_typed_one("SHOW transaction_read_only", &[]).await?;
        match answer.get::<_, &str>(0) == unfit {
            true => Err(self.unreachable(io::Error::other(is))),
            false => Ok(()),
        }
    }

    /// One place fails with its own error; of several each is named, with what it said.
    fn nobody_serves(&self, mut failed: Vec<(Place, DatabaseError)>) -> DatabaseError {
        if let [_] = failed[..]
            && let Some((_, error)) = failed.pop()
        {
            return error;
        }
        let said = |(place, error): &(Place, DatabaseError)| match error {
            DatabaseError::Connect { source, .. } => {
                format!("{place}: {}", error::chain(&**source))
            }
            other => format!("{place}: {}", error::chain(other)),
        };
        let said: Vec<_> = failed.iter().map(said).collect();
        match said.is_empty() {
            true => self.unreachable(io::Error::other("the URL names no host")),
            false => self.unreachable(io::Error::other(said.join("; "))),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Tcp(name) => write!(f, "{name}:{}", self.port),
            #[cfg(unix)]
            Host::Unix(folder) => write!(f, "{}:{}", folder.display(), self.port),
        }
    }
}

/// In the URL's order.
pub(super) fn places(config: &Config) -> Vec<Place> {
    let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
    let count = hosts.len().max(addresses.len());
    let place = |at: usize| {
        let address = of_host(addresses, at);
        let host = hosts.get(at).cloned().or(address.map(|address| Host::Tcp(address.to_string())));
        let port = of_host(config.get_ports(), at).unwrap_or(DEFAULT_PORT);
        Some(Place { host: host?, address, port })
    };
    (0..count).filter_map(place).collect()
}

/// What was given for this host; what was given once is for all of them.
fn of_host<T: Copy>(given: &[T], at: usize) -> Option<T> {
    given.get(at).or(given.first().filter(|_| given.len() == 1)).copied()
}
