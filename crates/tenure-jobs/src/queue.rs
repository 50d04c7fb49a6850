//! What waits to be leased, in the leader's memory.
//!
//! Jobs stand in lanes: one for each op of a namespace, and one for each op and agent that a job is pinned to. An
//! agent is served from the lanes of its ops, its own and everybody's: the highest priority first, among those what
//! is pinned to it, among those the oldest.
//!
//! The queue may be wrong, the database may not: whoever takes a job here has it only when the database says so.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::job::{JobEpoch, NewJob, Row};

/// A job that can be leased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Its row.
    pub row: Row,
    /// Its namespace.
    pub namespace: String,
    /// What is to be done.
    pub op: String,
    /// The highest first.
    pub priority: i16,
    /// The only agent that gets it.
    pub pinned_agent: Option<String>,
    /// Its epoch.
    pub job_epoch: JobEpoch,
    /// How large its payload is.
    pub bytes: u32,
}

impl Queued {
    /// A job that was just stored in this row.
    #[must_use]
    pub fn of(job: &NewJob, row: Row) -> Self {
        Self {
            row,
            namespace: job.namespace.clone(),
            op: job.op.clone(),
            priority: job.priority,
            pinned_agent: job.pinned_agent.clone(),
            job_epoch: 1,
            bytes: u32::try_from(job.payload.get().len()).unwrap_or(u32::MAX),
        }
    }
}

/// How much there is room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Bytes of what jobs bring.
    pub bytes: usize,
    /// Jobs.
    pub jobs: usize,
}

impl Room {
    /// Whether nothing more fits.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.bytes == 0 || self.jobs == 0
    }

    /// So much of it is taken; what comes last may be larger than what is left.
    pub fn take(&mut self, jobs: usize, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.jobs = self.jobs.saturating_sub(jobs);
    }
}

/// What an agent can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ops {
    /// Whatever comes.
    All,
    /// These.
    These(Arc<[String]>),
}

type Order = (Reverse<i16>, Row);
/// The epoch of each, and how large it is.
type Lane = BTreeMap<Order, (JobEpoch, u32)>;

/// The lanes of one op.
#[derive(Debug, Default)]
struct Lanes {
    everybodys: Lane,
    pinned: HashMap<String, Lane>,
}

impl Lanes {
    fn lane(&mut self, pinned_agent: Option<String>) -> &mut Lane {
        match pinned_agent {
            Some(agent) => self.pinned.entry(agent).or_default(),
            None => &mut self.everybodys,
        }
    }

    /// The first for an agent: its order, and whether it is pinned.
    fn first_for(&self, agent: &str) -> Option<(Order, bool)> {
        let first = |lane: &Lane| lane.first_key_value().map(|(order, _)| *order);
        let pinned = self.pinned.get(agent).and_then(first).map(|order| (order, true));
        let everybodys = first(&self.everybodys).map(|order| (order, false));
        [pinned, everybodys]
            .into_iter()
            .flatten()
            .min_by_key(|&(order, is_pinned)| rank(order, is_pinned))
    }

    fn pop(&mut self, agent: &str, is_pinned: bool) -> Option<((Row, JobEpoch), u32)> {
        let lane = match is_pinned {
            true => self.pinned.get_mut(agent)?,
            false => &mut self.everybodys,
        };
        let popped = lane.pop_first();
        if is_pinned && lane.is_empty() {
            self.pinned.remove(agent);
        }
        popped.map(|((_, row), (job_epoch, bytes))| ((row, job_epoch), bytes))
    }

    fn is_empty(&self) -> bool {
        self.everybodys.is_empty() && self.pinned.is_empty()
    }
}

/// Priority, pinned first, age.
fn rank((priority, row): Order, is_pinned: bool) -> (Reverse<i16>, bool, Row) {
    (priority, !is_pinned, row)
}

/// All that waits.
#[derive(Debug, Default)]
pub struct Queue {
    namespaces: HashMap<String, HashMap<String, Lanes>>,
    length: usize,
}

impl Queue {
    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Queues a job. One that is queued already keeps the newer of both epochs.
    pub fn push(&mut self, job: Queued) {
        let lanes = self.namespaces.entry(job.namespace).or_default().entry(job.op).or_default();
        let lane = lanes.lane(job.pinned_agent);
        let (epoch, _) = lane.entry((Reverse(job.priority), job.row)).or_insert_with(|| {
            self.length += 1;
            (job.job_epoch, job.bytes)
        });
        *epoch = job.job_epoch.max(*epoch);
    }

    /// Takes up to `most` jobs for an agent, in order, while they fit into what is left of `room`.
    pub fn take(
        &mut self,
        namespace: &str,
        agent: &str,
        ops: &Ops,
        most: usize,
        room: &mut Room,
    ) -> Vec<(Row, JobEpoch)> {
        let Some(by_op) = self.namespaces.get_mut(namespace) else { return Vec::new() };
        let mut taken = Vec::new();
        while taken.len() < most
            && !room.is_none()
            && let Some((op, is_pinned)) = next(by_op, agent, ops)
            && let Some(lanes) = by_op.get_mut(&op)
            && let Some((job, bytes)) = lanes.pop(agent, is_pinned)
        {
            room.take(1, bytes as usize);
            if lanes.is_empty() {
                by_op.remove(&op);
            }
            taken.push(job);
        }
        if by_op.is_empty() {
            self.namespaces.remove(namespace);
        }
        self.length -= taken.len();
        taken
    }
}

/// The op whose first job is the first of all for an agent, and whether that one is pinned.
fn next(by_op: &HashMap<String, Lanes>, agent: &str, ops: &Ops) -> Option<(String, bool)> {
    let first = |op: &'_ str, lanes: &Lanes| {
        lanes
            .first_for(agent)
            .map(|(order, is_pinned)| (rank(order, is_pinned), op.to_owned(), is_pinned))
    };
    let first = match ops {
        Ops::All => by_op.iter().filter_map(|(op, lanes)| first(op, lanes)).min(),
        Ops::These(ops) => {
            ops.iter().filter_map(|op| by_op.get(op).and_then(|lanes| first(op, lanes))).min()
        }
    };
    first.map(|(_, op, is_pinned)| (op, is_pinned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(row: Row, op: &str, priority: i16, pinned: Option<&str>) -> Queued {
        Queued {
            row,
            namespace: "a".to_owned(),
            op: op.to_owned(),
            priority,
            pinned_agent: pinned.map(str::to_owned),
            job_epoch: 1,
            bytes: 10,
        }
    }

    fn take(
        queue: &mut Queue,
        namespace: &str,
        agent: &str,
        ops: &Ops,
        most: usize,
    ) -> Vec<(Row, JobEpoch)> {
        let mut room = Room { bytes: usize::MAX, jobs: usize::MAX };
        queue.take(namespace, agent, ops, most, &mut room)
    }

    fn these(ops: &[&str]) -> Ops {
        Ops::These(ops.iter().map(|op| (*op).to_owned()).collect())
    }

    fn rows(taken: Vec<(Row, JobEpoch)>) -> Vec<Row> {
        taken.into_iter().map(|(row, _)| row).collect()
    }

    #[test]
    fn the_order_is_priority_then_pinned_then_age() {
        let mut queue = Queue::default();
        for one in [
            job(1, "x", 0, Some("me")),
            job(2, "x", 1, None),
            job(3, "y", 1, None),
            job(4, "y", 1, Some("me")),
            job(5, "x", 3, None),
        ] {
            queue.push(one);
        }
        assert_eq!(rows(take(&mut queue, "a", "me", &these(&["x", "y"]), 64)), [5, 4, 2, 3, 1]);
        assert!(queue.is_empty() && queue.namespaces.is_empty());
    }

    #[test]
    fn an_agent_gets_only_its_namespace_its_ops_and_what_is_not_anothers() {
        let mut queue = Queue::default();
        queue.push(job(1, "x", 1, Some("you")));
        queue.push(job(2, "y", 1, None));
        queue.push(Queued { namespace: "b".to_owned(), ..job(3, "x", 1, None) });
        assert!(take(&mut queue, "a", "me", &these(&["x"]), 64).is_empty());
        assert!(take(&mut queue, "a", "me", &these(&[]), 64).is_empty());
        assert_eq!(rows(take(&mut queue, "b", "me", &Ops::All, 64)), [3]);
        assert_eq!(rows(take(&mut queue, "a", "me", &Ops::All, 64)), [2]);
        assert_eq!(rows(take(&mut queue, "a", "you", &Ops::All, 64)), [1]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn no_more_are_taken_than_were_asked_for() {
        let mut queue = Queue::default();
        (0..10).for_each(|row| queue.push(job(row, "x", 1, None)));
        assert_eq!(rows(take(&mut queue, "a", "me", &Ops::All, 3)), [0, 1, 2]);
        assert_eq!(queue.len(), 7);
    }

    #[test]
    fn a_job_that_is_queued_twice_is_there_once_with_its_newest_epoch() {
        let mut queue = Queue::default();
        queue.push(Queued { job_epoch: 3, ..job(1, "x", 1, None) });
        queue.push(Queued { job_epoch: 2, ..job(1, "x", 1, None) });
        assert_eq!(queue.len(), 1);
        assert_eq!(take(&mut queue, "a", "me", &Ops::All, 64), [(1, 3)]);
    }

    #[test]
    fn no_more_is_taken_than_fits_and_at_least_one_if_anything_does() {
        let mut queue = Queue::default();
        (0..10).for_each(|row| queue.push(job(row, "x", 1, None)));
        let mut room = Room { bytes: 25, jobs: 64 };
        assert_eq!(rows(queue.take("a", "me", &Ops::All, 64, &mut room)), [0, 1, 2]);
        assert!(room.is_none() && queue.take("a", "me", &Ops::All, 64, &mut room).is_empty());
        let mut room = Room { bytes: 1_000, jobs: 2 };
        assert_eq!(rows(queue.take("a", "me", &Ops::All, 64, &mut room)), [3, 4]);
        assert!(room.is_none());
    }
}
