//! `tenure controller`: serves jobs on every node, and changes them on the one that leads.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Result, bail};
use prometheus_client::registry::Registry;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tenure::{
    Candidate, DatabaseUrl, Election, HolderId, Metrics, Scope, Timing,
    election::{Handle, delegated::Delegate},
};
use tenure_http::{Guard, Limits, Server, Token};
use tenure_jobs::{
    controller::{Controller as Served, Prepared},
    database::store,
    http::{self, Access},
    leader::{Leader, Pace, Takeover},
    store::Patience,
};
use tenure_run::converse;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    components::{ENGINE, JOBS},
    contend::{Contender, LockChoice},
    database,
    shown::{Http, Shown},
};

/// The longest wait that an agent may ask for, and some time to answer it.
const LONGEST_ANSWER: Duration = Duration::from_secs(130);
/// Files for the database, for events, for whatever else is open.
const OTHER_FILES: u64 = 256;

/// What to serve, and how to contend for changing it.
#[derive(Debug)]
pub struct Controller {
    pub db: DatabaseUrl,
    pub scope: Scope,
    pub node_id: Option<HolderId>,
    pub lock: LockChoice,
    pub timing: Timing,
    pub http: Http,
    /// Where others reach this node.
    pub url: Option<String>,
    pub access: AccessChoice,
    pub patience: Patience,
    pub pace: Pace,
    /// Whether a supervisor tells it when to lead, over its standard input.
    pub is_delegate: bool,
    /// The agent that runs on this node while it does not lead.
    pub own_agent: Option<String>,
}

/// What callers must bring.
#[derive(Debug)]
pub struct AccessChoice {
    pub clients: Option<Token>,
    pub agents: Option<Token>,
    pub allow_unauthenticated: bool,
}

impl AccessChoice {
    /// Other machines are served without tokens only when the operator has said so.
    fn meaning(self, server: &Server) -> Result<Access> {
        let Self { clients, agents, allow_unauthenticated } = self;
        let ip = server.address().ip();
        if !allow_unauthenticated
            && !ip.to_canonical().is_loopback()
            && (clients.is_none() || agents.is_none())
        {
            bail!(
                "{} serves other machines, and a token is missing: give --token-file and \
                 --agent-token-file, or say --allow-unauthenticated",
                server.address()
            );
        }
        let guard = |token: Option<Token>| match token {
            None if allow_unauthenticated => Guard::Anybody,
            token => Guard::new(token, ip),
        };
        Ok(Access { clients: guard(clients), agents: guard(agents) })
    }
}

impl Controller {
    /// Serves until it is told to stop; then whoever works may still report, for a while.
    pub async fn run(self) -> Result<()> {
        let clients = 2 * self.pace.most_waiting + OTHER_FILES as usize;
        let limits = Limits { answer: LONGEST_ANSWER, clients: allow_files(clients) };
        let server = Http { token: None, ..self.http }.bind().await?.with_limits(limits);
        let access = self.access.meaning(&server)?;
        database::prepare(&self.db, &[ENGINE, JOBS]).await?;
        let url = self.url.unwrap_or_else(|| url_of(server.address()));
        let holder = self.node_id.unwrap_or_else(HolderId::fresh);
        let store = store(&self.db, &self.timing, self.patience)?;
        let (mut registry, metrics) = (Registry::default(), Metrics::default());
        metrics.register(&mut registry);
        let takeover = Takeover { leader_url: Some(url), dead_agent: self.own_agent };
        let prepared = Prepared::new(store.clone(), takeover, self.pace, &mut registry);
        store.rehearse().await;
        let leader = prepared.leader.clone();
        let contest = match self.is_delegate {
            true => Contest::told(self.scope, holder, leader, &metrics)?,
            false => {
                let contender = Contender {
                    db: &self.db,
                    lock: &self.lock,
                    candidate: Candidate::new(self.scope, holder),
                    timing: self.timing,
                    processes: None,
                };
                Contest::own(contender, leader, &metrics)?
            }
        };
        let election = contest.handle();
        let controller = prepared.behind(&election);
        let facts = vec![("Lock".to_owned(), self.lock.name().to_owned())];
        let mut node = controller.node(&election, registry);
        node.facts = facts;
        let stand = node.stand();
        let guard = access.clients.clone();
        let routes = http::routes(&controller, access);
        let routes = tenure_http::routes(node, guard).merge(routes);
        let routes = http::with_role(routes, stand);
        let shown = Shown::serving(server, routes, &election);
        finish(contest, &controller, shown).await
    }
}

/// As many clients as the system has files for.
fn allow_files(clients: usize) -> usize {
    let wanted = clients as u64 + OTHER_FILES;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let allowed = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    if current.is_some_and(|current| current < allowed) {
        // Without more files there are fewer clients.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(allowed), maximum });
    }
    let now = getrlimit(Resource::Nofile).current.unwrap_or(wanted);
    usize::try_from(now.saturating_sub(OTHER_FILES)).unwrap_or(clients).min(clients)
}

/// What decides whether this node leads: its own election, or a supervisor's.
enum Contest {
    Own(Election),
    Told { handle: Handle, running: tokio::task::JoinHandle<()>, stop: CancellationToken },
}

impl Contest {
    fn own(contender: Contender<'_>, leader: Leader, metrics: &Metrics) -> Result<Self> {
        let builder = contender.builder()?.work(leader).metrics(metrics);
        Ok(Self::Own(builder.start()?))
    }

    fn told(scope: Scope, holder: HolderId, leader: Leader, metrics: &Metrics) -> Result<Self> {
        let (charges, accounts) = converse::on_stdin()?;
        let delegate = Delegate::new(scope, holder, leader, metrics);
        let (handle, stop) = (delegate.handle(), CancellationToken::new());
        let told = stop.clone();
        let running = tokio::spawn(delegate.run(charges, accounts, told));
        Ok(Self::Told { handle, running, stop })
    }

    fn handle(&self) -> Handle {
        match self {
            Self::Own(election) => election.handle(),
            Self::Told { handle, .. } => handle.clone(),
        }
    }

    /// Waits until there is nobody left who decides.
    async fn ended(&mut self) -> Result<()> {
        match self {
            Self::Own(election) => {
                election.ended().await?;
                bail!("the election has ended")
            }
            Self::Told { running, .. } => Ok(running.await?),
        }
    }

    async fn stop(self) -> Result<()> {
        match self {
            Self::Own(election) => Ok(election.stop().await?),
            // A supervisor ends its controller only when it does not lead.
            Self::Told { stop, running, .. } => {
                stop.cancel();
                Ok(running.await?)
            }
        }
    }
}

/// Hands over first, while everybody can still report; then nothing is served any more.
async fn finish(mut contest: Contest, controller: &Served, shown: Shown) -> Result<()> {
    let (mut terminated, mut interrupted) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let ended = tokio::select! {
        ended = contest.ended() => {
            controller.stop();
            shown.stop().await;
            return ended;
        }
        _ = terminated.recv() => contest.stop(),
        _ = interrupted.recv() => contest.stop(),
    };
    let ended = ended.await;
    controller.stop();
    shown.stop().await;
    ended
}

/// Where others reach a server that was not told its name. Nobody reaches the address of every interface, so then it is
/// the name of the machine.
pub(crate) fn url_of(address: SocketAddr) -> String {
    match address.ip().to_canonical().is_unspecified() {
        true => {
            let machine = rustix::system::uname();
            format!("http://{}:{}", machine.nodename().to_string_lossy(), address.port())
        }
        false => format!("http://{address}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_to_the_address_of_every_interface() {
        assert_eq!(url_of("127.0.0.1:80".parse().unwrap()), "http://127.0.0.1:80");
        assert_eq!(url_of("[::1]:80".parse().unwrap()), "http://[::1]:80");
        for everywhere in ["0.0.0.0:8080", "[::]:8080", "[::ffff:0.0.0.0]:8080"] {
            let url = url_of(everywhere.parse().unwrap());
            assert!(
                url.ends_with(":8080") && !url.contains("0.0.0.0") && !url.contains('['),
                "{url}"
            );
        }
    }
}
