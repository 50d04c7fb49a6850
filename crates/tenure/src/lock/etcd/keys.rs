//! The two keys of a scope: their names, what is written into them and what is read from them.
//!
//! The leader key has three lines: the epoch, the nonce and the holder, which contains no line breaks.
//! The epoch key has two: the epoch of the last term, and the milliseconds for which gates may still be
//! open after its end.

use std::{str::FromStr, sync::Arc, time::Duration};

use etcd_client::{
    Compare, CompareOp, DeleteOptions, KeyValue, PutOptions, ResponseHeader, Txn, TxnOp,
    TxnOpResponse, TxnResponse,
};

use crate::{
    lock::{Candidate, LockError, Reading},
    term::{Epoch, Scope},
};

/// The names of a scope's keys.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    leader: String,
    epoch: String,
}

/// Both keys at one revision, confirmed by a quorum.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) leader: Option<Leader>,
    pub(super) last: Last,
    pub(super) answer: Answer,
}

/// The leader key: a term that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leader {
    pub(super) epoch: Epoch,
    pub(super) nonce: String,
    pub(super) holder: String,
    pub(super) lease: i64,
    pub(super) create_revision: i64,
}

/// The epoch key: the last term, held or not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Last {
    pub(super) epoch: Epoch,
    pub(super) gate_open_for: Duration,
    pub(super) mod_revision: i64,
}

/// Who gave an answer.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    cluster: u64,
    pub(super) by: Member,
}

/// A member, and the raft term of the last entry of the log that it has applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    id: u64,
    raft_term: u64,
}

impl Keys {
    /// A scope is one segment of the name whatever it contains, so that no two scopes share a key, not
    /// even below prefixes of which one contains the other.
    pub(super) fn of(prefix: &str, scope: &Scope) -> Self {
        let scope = scope.as_str().replace('%', "%25").replace('/', "%2F");
        Self { leader: format!("{prefix}leader/{scope}"), epoch: format!("{prefix}epoch/{scope}") }
    }

    pub(super) fn leader(&self) -> &str {
        &self.leader
    }

    /// Reads both keys.
    pub(super) fn look(&self) -> Txn {
        Txn::new().and_then(self.gets())
    }

    /// Begins the term `next`, if nobody holds one and `last` still is the last one; else looks.
    pub(super) fn take(&self, by: &Candidate, last: Last, next: Last, lease: i64) -> Txn {
        let on_lease = PutOptions::new().with_lease(lease);
        Txn::new()
            .when([
                Compare::create_revision(&*self.leader, CompareOp::Equal, 0),
                Compare::mod_revision(&*self.epoch, CompareOp::Equal, last.mod_revision),
            ])
            .and_then([
                TxnOp::put(&*self.leader, Leader::text(by, next.epoch), Some(on_lease)),
                TxnOp::put(&*self.epoch, Last::text(next.epoch, next.gate_open_for), None),
            ])
            .or_else(self.gets())
    }

    /// Ends exactly this term, and says how long gates may be open from now on, where that is known.
    pub(super) fn give_back(
        &self,
        by: &Candidate,
        epoch: Epoch,
        gates_open: Option<Duration>,
    ) -> Txn {
        let telling = DeleteOptions::new().with_prev_key();
        let mut ending = vec![TxnOp::delete(&*self.leader, Some(telling))];
        if let Some(open) = gates_open {
            ending.push(TxnOp::put(&*self.epoch, Last::text(epoch, open), None));
        }
        Txn::new()
            .when([Compare::value(&*self.leader, CompareOp::Equal, Leader::text(by, epoch))])
            .and_then(ending)
    }

    /// What a look has brought.
    pub(super) fn read(&self, answer: &TxnResponse) -> Result<Seen, LockError> {
        let (mut leader, mut last) = (None, Last::default());
        for response in answer.op_responses() {
            let TxnOpResponse::Get(found) = response else { continue };
            let Some(found) = found.kvs().first() else { continue };
            if found.key() == self.leader.as_bytes() {
                leader = Some(Leader::read(found).ok_or_else(|| foreign(&self.leader))?);
            } else {
                last = Last::read(found).ok_or_else(|| foreign(&self.epoch))?;
            }
        }
        Ok(Seen { leader, last, answer: Answer::headed(answer.header())? })
    }

    fn gets(&self) -> [TxnOp; 2] {
        [TxnOp::get(&*self.leader, None), TxnOp::get(&*self.epoch, None)]
    }
}

/// The lease of the term that was ended, if there was one to end.
pub(super) fn lease_given_back(answer: &TxnResponse) -> Option<i64> {
    answer.op_responses().iter().find_map(|response| match response {
        TxnOpResponse::Delete(deleted) => deleted.prev_kvs().first().map(KeyValue::lease),
        _ => None,
    })
}

impl Seen {
    /// The leader key, if it stands for exactly this term.
    pub(super) fn term_of(&self, candidate: &Candidate, epoch: Epoch) -> Option<&Leader> {
        self.leader.as_ref().filter(|leader| {
            leader.epoch == epoch
                && *leader.nonce == *candidate.nonce
                && leader.holder == candidate.holder.as_str()
        })
    }
}

impl Leader {
    fn text(Candidate { holder, nonce, .. }: &Candidate, epoch: Epoch) -> String {
        format!("{epoch}\n{nonce}\n{holder}")
    }

    fn read(found: &KeyValue) -> Option<Self> {
        let mut lines = found.value_str().ok()?.splitn(3, '\n');
        Some(Self {
            epoch: Epoch::new(number(lines.next())?),
            nonce: lines.next()?.to_owned(),
            holder: lines.next()?.to_owned(),
            lease: found.lease(),
            create_revision: found.create_revision(),
        })
    }
}

impl Last {
    fn text(epoch: Epoch, gate_open_for: Duration) -> String {
        format!("{epoch}\n{}", gate_open_for.as_micros().div_ceil(1_000))
    }

    fn read(found: &KeyValue) -> Option<Self> {
        let mut lines = found.value_str().ok()?.lines();
        Some(Self {
            epoch: Epoch::new(number(lines.next())?),
            gate_open_for: Duration::from_millis(number(lines.next())?),
            mod_revision: found.mod_revision(),
        })
    }
}

fn number<N: FromStr>(line: Option<&str>) -> Option<N> {
    line?.parse().ok()
}

fn foreign(key: &str) -> LockError {
    LockError::Refused(format!(
        "the etcd key {key} holds what Tenure has not written: does another program use its prefix?"
    ))
}

impl Answer {
    fn headed(header: Option<&ResponseHeader>) -> Result<Self, LockError> {
        let header = header.ok_or_else(|| {
            let error = etcd_client::Error::Internal("an answer without a header".to_owned());
            LockError::Etcd(Box::new(error))
        })?;
        let by = Member { id: header.member_id(), raft_term: header.raft_term() };
        Ok(Self { cluster: header.cluster_id(), by })
    }

    pub(super) fn reading(&self) -> Reading {
        let cluster: Arc<str> = format!("{:x}", self.cluster).into();
        Reading { server: Some(cluster), ..Reading::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_scopes_share_a_key() {
        let names = ["a", "a/b", "a%2Fb", "leader/a", "epoch/a", "a/leader", "a%"];
        let prefixes = ["", "/tenure/", "/tenure/leader/", "/tenure/leader/a"];
        let mut all = std::collections::HashSet::new();
        for (prefix, name) in prefixes.iter().flat_map(|prefix| names.map(|name| (prefix, name))) {
            let Keys { leader, epoch } = Keys::of(prefix, &Scope::new(name).unwrap());
            assert!(all.insert(leader), "{prefix} {name}");
            assert!(all.insert(epoch), "{prefix} {name}");
        }
    }

    #[test]
    fn a_plain_scope_stands_in_its_key_as_it_is() {
        let keys = Keys::of("/tenure/", &Scope::new("billing:eu").unwrap());
        assert_eq!(keys.leader(), "/tenure/leader/billing:eu");
    }

    #[test]
    fn a_gate_is_never_said_to_shut_too_early() {
        assert_eq!(Last::text(Epoch::new(7), Duration::from_micros(1_600_001)), "7\n1601");
        assert_eq!(Last::text(Epoch::new(7), Duration::ZERO), "7\n0");
    }
}
