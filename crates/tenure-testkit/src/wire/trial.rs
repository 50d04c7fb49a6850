//! A fenced call, with every message of it failing in every way, and what must hold whatever has failed.
//!
//! Three promises, each looked at in the tables by another session, after the server has ended the call's:
//!
//! - a *stale* term, whose successor raised the fence before the call, changes no row;
//! - the *current* term's call has written all of it or nothing, and all of it if it said so; made again, it does what
//!   it would have done first, or second, without a failure, and nothing else;
//! - of a term that is *taken over* in the middle of its call nothing appears once the raise has been committed.
//!
//! What "all of it" is comes from a run without a failure.
//!
//! A session is warm, with its statements prepared, or fresh. On a fresh one only what warm ones do not send is harmed:
//! each of it fails, and the first and the last is harmed in every way. All of it is with `TENURE_TEST_FULL=1`.

mod data;
mod tally;

use std::{convert::Infallible, pin::pin, time::Duration};

use async_trait::async_trait;
use futures_util::future::{self, Either};
use tenure::Term;
use tenure_database::postgres::PostgresUrl;
use tokio_postgres::Client;

use self::data::{Data, Tables};
use self::tally::Played;
pub use self::tally::Tally;
use super::{Bite, Failure, Wire, terms::Terms};
use crate::{
    eventually::{eventually, secs},
    postgres::Postgres,
};

const LONG: Duration = secs(20);

/// A fenced call, and the data that it is made on.
#[async_trait]
pub trait Call: Send + Sync {
    /// What it is made over: a store, or a client and its statements.
    type Session: Send;
    /// What it is given: the rows that it is to write.
    type Given: Send + Sync;

    /// For people.
    fn name(&self) -> String;

    /// Which tables are to be looked at, or queries in parentheses.
    fn tables(&self) -> Vec<&'static str>;

    /// Whether it takes the term into account; otherwise it is only asked for all or nothing.
    fn is_fenced(&self) -> bool {
        true
    }

    /// Empties the tables, and fills them with what the call needs, written by this term.
    async fn prepare(&self, term: &Term) -> Self::Given;

    /// A new session; whether it connects now or later is its own affair.
    async fn connect(&self, url: &PostgresUrl) -> Self::Session;

    /// Makes the call.
    async fn call(
        &self,
        session: &mut Self::Session,
        term: &Term,
        given: &Self::Given,
    ) -> Result<(), String>;
}

/// What happens to a message, or while it is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Harm {
    /// It fails alone.
    Fails,
    /// It does not arrive.
    CutBefore,
    /// It arrives, and its answer does not.
    CutAfter,
    /// An answer does not arrive.
    Unheard,
    /// The session is cancelled, from then on.
    Cancelled,
    /// Somebody else takes over.
    TakenOver,
    /// The first message of the call fails alone, and somebody takes over at this one: whoever does not notice that no
    /// transaction was begun writes what the fence protects no longer.
    Unbegun,
}

impl Harm {
    const ALL: [Self; 7] = [
        Self::Fails,
        Self::CutBefore,
        Self::CutAfter,
        Self::Unheard,
        Self::Cancelled,
        Self::TakenOver,
        Self::Unbegun,
    ];

    fn failure(self) -> Failure {
        match self {
            Self::Fails => Failure::Fails,
            Self::CutBefore => Failure::CutBefore,
            Self::CutAfter => Failure::CutAfter,
            Self::Unheard => Failure::Unheard,
            Self::Cancelled | Self::TakenOver => Failure::Held,
            Self::Unbegun => Failure::FailsThenHeld,
        }
    }

    fn takes_over(self) -> bool {
        matches!(self, Self::TakenOver | Self::Unbegun)
    }
}

/// Which term makes the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stance {
    Stale,
    Current,
}

/// Whether the session has made this call before, and has its statements prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Session {
    Warm,
    Fresh,
}

/// One way through a call.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    session: Session,
    stance: Stance,
    harm: Harm,
    at: usize,
}

/// What calls do when nothing fails.
struct Undisturbed {
    once: Vec<String>,
    twice: Vec<String>,
    /// Whether the second call is answered.
    repeats: bool,
    /// Which messages a fresh session sends that a warm one does not.
    preparing: Vec<usize>,
}

/// A server, the wire to it, and terms.
pub struct Trial<'p> {
    role: &'p str,
    direct: PostgresUrl,
    wire: Wire,
    terms: Terms,
    owner: Client,
}

impl<'p> Trial<'p> {
    /// On a migrated server. Calls are made as `role`, by terms of a scope whose lease is in this table.
    ///
    /// # Panics
    /// When the server is not there.
    pub async fn on(postgres: &Postgres, role: &'p str, table: &str, scope: &str) -> Self {
        Self {
            role,
            direct: postgres.url_as(role, "postgres").parse().unwrap(),
            wire: Wire::to(postgres.addr()).await.unwrap(),
            terms: Terms::of(postgres, table, scope).await,
            owner: postgres.connect().await.unwrap(),
        }
    }

    /// Makes a call with every message failing in every way.
    ///
    /// # Panics
    /// When the call fails although nothing does.
    pub async fn of<C: Call>(&self, call: &C) -> Tally {
        let tables = Tables::of(&self.owner, &call.tables()).await;
        let (term, direct) = (self.terms.next().await, call.connect(&self.direct).await);
        let mut one = One { trial: self, call, tables, term, direct };
        let undisturbed = one.undisturbed().await;
        let mut tally = Tally::of(call.name());
        for session in [Session::Warm, Session::Fresh] {
            for (stance, harm) in stances(call.is_fenced()) {
                for at in undisturbed.places(session, harm) {
                    let schedule = Schedule { session, stance, harm, at };
                    let (bite, played) = one.play(schedule, &undisturbed).await;
                    let Some(bite) = bite else { break };
                    tally.count(&schedule, &bite, played);
                }
            }
        }
        tally
    }

    fn url(&self) -> PostgresUrl {
        self.wire.url_as(self.role, "postgres").parse().unwrap()
    }

    /// Cancels what a session does, before a message that is held and then again and again; never returns. A cancel that
    /// finds a session between two messages does nothing, so it takes many to hit one.
    async fn cancel(&self, bite: &Bite) -> Infallible {
        loop {
            self.owner.execute("SELECT pg_cancel_backend($1)", &[&bite.backend]).await.unwrap();
            self.wire.let_go();
        }
    }

    /// Whether somebody waits for another's lock.
    async fn waits(&self) -> bool {
        let query = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        !self.owner.query(query, &[]).await.unwrap().is_empty()
    }
}

/// Who makes the call, and what happens then. A stale term has been taken over already.
fn stances(is_fenced: bool) -> impl Iterator<Item = (Stance, Harm)> {
    let with = |stance: Stance| Harm::ALL.map(|harm| (stance, harm));
    let stale =
        with(Stance::Stale).into_iter().filter(move |(_, harm)| is_fenced && !harm.takes_over());
    stale.chain(with(Stance::Current))
}

impl Undisturbed {
    /// Which messages are harmed, until there are no more.
    fn places(&self, session: Session, harm: Harm) -> Box<dyn Iterator<Item = usize> + Send> {
        if harm == Harm::Unbegun {
            let last = if session == Session::Warm { usize::MAX } else { 1 };
            return Box::new(1..last);
        }
        if session == Session::Warm || std::env::var_os("TENURE_TEST_FULL").is_some() {
            return Box::new(0..);
        }
        let preparing = self.preparing.clone();
        let (first, last) = (preparing.first().copied(), preparing.last().copied());
        match harm {
            Harm::Fails => Box::new(preparing.into_iter()),
            Harm::Unheard => Box::new(0..1),
            _ => Box::new(first.into_iter().chain(last.filter(|_| first != last))),
        }
    }
}

/// Which messages of a fresh session a warm one does not send.
fn preparing(fresh: &[String], warm: &[String]) -> Vec<usize> {
    let mut warm = warm.iter().peekable();
    let is_new = |(_, message): &(usize, &String)| warm.next_if_eq(message).is_none();
    fresh.iter().enumerate().filter(is_new).map(|(at, _)| at).collect()
}

/// One call's trial.
struct One<'t, C: Call> {
    trial: &'t Trial<'t>,
    call: &'t C,
    tables: Tables,
    /// Who leads.
    term: Term,
    /// Past the wire.
    direct: C::Session,
}

/// What came of a call, seen by another session.
struct Outcome {
    answer: Result<(), String>,
    before: Data,
    /// Right after the raise in the middle of the call, if there was one.
    raised: Option<Data>,
    after: Data,
}

impl<C: Call> One<'_, C> {
    async fn undisturbed(&mut self) -> Undisturbed {
        let wire = &self.trial.wire;
        let mut session = self.connect(Session::Fresh).await;
        let given = self.call.prepare(&self.term).await;
        wire.watch();
        self.call.call(&mut session, &self.term, &given).await.expect("nothing fails");
        let fresh = wire.disarm().requests;
        let once = self.data().await.meaning(&self.term);
        let repeats = self.call.call(&mut session, &self.term, &given).await.is_ok();
        let twice = self.data().await.meaning(&self.term);
        drop(session);
        let mut session = self.connect(Session::Warm).await;
        let given = self.call.prepare(&self.term).await;
        wire.watch();
        self.call.call(&mut session, &self.term, &given).await.expect("nothing fails");
        let preparing = preparing(&fresh, &wire.disarm().requests);
        drop(session);
        wire.settled().await;
        Undisturbed { once, twice, repeats, preparing }
    }

    async fn data(&self) -> Data {
        self.tables.read(&self.trial.owner).await
    }

    async fn connect(&self, session: Session) -> C::Session {
        let mut connected = self.call.connect(&self.trial.url()).await;
        if session == Session::Warm {
            let given = self.call.prepare(&self.term).await;
            self.call.call(&mut connected, &self.term, &given).await.expect("nothing fails");
        }
        connected
    }

    /// Where the failure bit, and what was wrong with the outcome.
    async fn play(
        &mut self,
        schedule: Schedule,
        undisturbed: &Undisturbed,
    ) -> (Option<Bite>, Played) {
        let mut session = self.connect(schedule.session).await;
        let given = self.call.prepare(&self.term).await;
        let caller = self.term.clone();
        if schedule.stance == Stance::Stale {
            self.term = self.trial.terms.next().await;
        }
        let before = self.data().await;
        let wire = &self.trial.wire;
        wire.arm(schedule.harm.failure(), schedule.at);
        let (answer, next, raised) = self.make(&mut session, &caller, &given, schedule.harm).await;
        let bite = wire.disarm().bite;
        drop(session);
        wire.settled().await;
        let after = self.data().await;
        let outcome = Outcome { answer, before, raised, after };
        self.term = next.unwrap_or_else(|| self.term.clone());
        let is_over = self.term != caller;
        let verdict = match (schedule.stance, bite.is_some()) {
            (_, false) => Ok(()),
            (Stance::Stale, true) => outcome.changed_nothing(),
            (Stance::Current, true) => outcome.is_all_or_nothing(&caller, undisturbed),
        };
        let verdict = match verdict {
            Ok(()) if bite.is_some() => {
                self.again(&caller, &given, &outcome, is_over, undisturbed).await
            }
            known => known,
        };
        (bite, Played { has_failed: outcome.answer.is_err(), verdict })
    }

    /// Makes the call, and does what is to be done while a message is held. Who leads now, if that is another, and what
    /// the data were when it began to.
    async fn make(
        &self,
        session: &mut C::Session,
        caller: &Term,
        given: &C::Given,
        harm: Harm,
    ) -> (Result<(), String>, Option<Term>, Option<Data>) {
        let mut call = pin!(self.call.call(session, caller, given));
        let bite = match harm {
            Harm::Cancelled | Harm::TakenOver | Harm::Unbegun => {
                match future::select(call.as_mut(), pin!(self.trial.wire.bitten())).await {
                    Either::Left((answer, _)) => return (answer, None, None),
                    Either::Right((bite, _)) => bite,
                }
            }
            _ => return (call.await, None, None),
        };
        if harm == Harm::Cancelled {
            return match future::select(call, pin!(self.trial.cancel(&bite))).await {
                Either::Left((answer, _)) => (answer, None, None),
                Either::Right((never, _)) => match never {},
            };
        }
        let (answer, (next, raised)) = future::join(call, self.take_over()).await;
        (answer, Some(next), Some(raised))
    }

    /// Takes over while a message is held, and lets it go on when the raise is through, or waits for the call.
    async fn take_over(&self) -> (Term, Data) {
        let Trial { terms, wire, .. } = self.trial;
        let next = terms.win().await;
        let raise = async {
            terms.raise(&next).await;
            self.data().await
        };
        let mut raised = pin!(raise);
        let waits = eventually("a raise that is through or waits", LONG, async || {
            self.trial.waits().await.then_some(())
        });
        let data = match future::select(raised.as_mut(), pin!(waits)).await {
            Either::Left((data, _)) => {
                wire.let_go();
                data
            }
            Either::Right(_) => {
                wire.let_go();
                raised.await
            }
        };
        (next.clone(), data)
    }

    /// Makes the call once more, as whoever did not hear of the first.
    async fn again(
        &mut self,
        caller: &Term,
        given: &C::Given,
        outcome: &Outcome,
        is_over: bool,
        undisturbed: &Undisturbed,
    ) -> Result<(), String> {
        let answer = self.call.call(&mut self.direct, caller, given).await;
        let after = self.data().await;
        if is_over && self.call.is_fenced() {
            return match (answer, after == outcome.after) {
                (Ok(()), _) => Err("a term that is over was answered".to_owned()),
                (Err(_), true) => Ok(()),
                (Err(_), false) => Err(after.unlike(&outcome.after)),
            };
        }
        let was_written = outcome.after.meaning(caller) == undisturbed.once;
        let expected = match was_written && outcome.after != outcome.before {
            true => (undisturbed.repeats, &undisturbed.twice),
            false => (true, &undisturbed.once),
        };
        match (answer.is_ok(), &after.meaning(caller)) == expected {
            true => Ok(()),
            false => Err(format!("made again, it said {answer:?}, and left {after}")),
        }
    }
}

impl Outcome {
    fn changed_nothing(&self) -> Result<(), String> {
        match &self.answer {
            Ok(()) => Err("a stale call was answered".to_owned()),
            Err(_) if self.after == self.before => Ok(()),
            Err(answer) => {
                Err(format!("a stale term wrote ({answer}): {}", self.after.unlike(&self.before)))
            }
        }
    }

    fn is_all_or_nothing(&self, caller: &Term, undisturbed: &Undisturbed) -> Result<(), String> {
        if let Some(raised) = self.raised.as_ref().filter(|raised| **raised != self.after) {
            return Err(format!("after the raise appeared {}", self.after.unlike(raised)));
        }
        let is_whole = self.after.meaning(caller) == undisturbed.once;
        let is_nothing = self.after == self.before;
        match &self.answer {
            Ok(()) if is_whole => Ok(()),
            Err(_) if is_whole || is_nothing => Ok(()),
            answer => {
                let wrote = self.after.unlike(&self.before);
                Err(format!("it said {answer:?}, and wrote in part: {wrote}"))
            }
        }
    }
}
