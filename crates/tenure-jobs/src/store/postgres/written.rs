//! A round, written: every statement that it needs goes out at once, between the fence and the commit.

use std::collections::HashMap;

use serde_json::value::RawValue;
use tenure::{
    Term,
    fence::{
        FenceError,
        postgres::{self as fence, Call},
    },
};
use tenure_database::{DatabaseError, Deadline};
use tokio_postgres::{Client, Row as Line, Statement, types::ToSql};

use super::{
    PostgresStore, millis,
    rows::{queued, task},
    statements::Prepared,
};
use crate::{
    agent::Heartbeat,
    job::NewJob,
    queue::Queued,
    round::{AgentName, Grant, Recall, Reported, Round, Submitted, Task, Verdict, Written},
    store::{Patience, StoreError, columns::unreadable, compare},
};

type Parameters<'p> = Vec<&'p (dyn ToSql + Sync)>;

/// What each statement answered, in the order of the round.
struct Answers {
    recorded: Vec<Line>,
    taken_back: [Vec<Line>; 4],
    buried: Vec<Line>,
    submitted: Vec<Line>,
    granted: Vec<Line>,
}

pub(super) async fn write(
    store: &PostgresStore,
    term: &Term,
    round: &Round,
) -> Result<Written, StoreError> {
    let deadline = Deadline::after(store.limits.write);
    let (mut session, prepared) = store.writer(deadline).await?;
    let sent = async {
        let answers = send(&mut session, &prepared, term, round, &store.patience).await;
        Ok::<_, DatabaseError>(answers)
    };
    let answers = deadline.run(sent).await??;
    session.put_back();
    let (submitted, mut newly_queued) = submitted(store, &round.jobs, &answers.submitted).await;
    newly_queued.extend(answers.taken_back.iter().flatten().map(queued));
    Ok(Written {
        verdicts: verdicts(round.results.len(), &answers.recorded)?,
        buried: answers.buried.iter().map(agent_name).collect(),
        submitted,
        tasks: tasks(&round.grants, &answers.granted)?,
        queued: newly_queued,
    })
}

async fn send(
    client: &mut Client,
    prepared: &Prepared,
    term: &Term,
    round: &Round,
    patience: &Patience,
) -> Result<Answers, FenceError> {
    let (epoch, lease) = (term.epoch().get(), millis(patience.job_lease));
    let heard = Heard::of(&round.heartbeats);
    let results = Results::of(&round.results);
    let recalls = Recalls::of(&round.recalls);
    let burials = Names::of(&round.burials);
    let jobs = Jobs::of(&round.jobs);
    let grants = Grants::of(&round.grants);
    let silences = [patience.stale_after, patience.tombstone_after, patience.forget_after];
    let [stale, tombstoned, forgotten] = silences.map(millis);
    let why = "the agent was deleted";
    let (buries, reaps) = (!round.burials.is_empty(), round.reaps);
    let mut of_dead = burials.parameters(&epoch);
    of_dead.push(&why);

    let statements: [(bool, &Statement, Parameters<'_>); 12] = [
        (true, &prepared.begin, vec![]),
        (!round.heartbeats.is_empty(), &prepared.hear, heard.parameters(&epoch, &lease)),
        (!round.results.is_empty(), &prepared.record, results.parameters(&epoch)),
        (!round.recalls.is_empty(), &prepared.recall_jobs, recalls.parameters(&epoch)),
        (!round.strays.is_empty(), &prepared.recall_leases, vec![&epoch, &round.strays]),
        (buries, &prepared.bury, burials.parameters(&epoch)),
        (buries, &prepared.recall_agents, of_dead),
        (reaps, &prepared.recall_expired, vec![&epoch]),
        (reaps, &prepared.age, vec![&epoch, &stale, &tombstoned, &forgotten]),
        (reaps, &prepared.prune, vec![&patience.events_kept]),
        (!round.jobs.is_empty(), &prepared.submit, jobs.parameters(&epoch)),
        (!round.grants.is_empty(), &prepared.grant, grants.parameters(&epoch, &lease)),
    ];
    let wanted = statements.iter().filter(|(is_wanted, ..)| *is_wanted);
    let calls = wanted.map(|(_, statement, parameters)| Call { statement, parameters });
    let calls: Vec<_> = calls.collect();
    let mut answers = fence::together(client, term, &calls).await?.into_iter();
    let answers = statements.each_ref().map(|(is_wanted, ..)| match is_wanted {
        true => answers.next().unwrap_or_default(),
        false => Vec::new(),
    });
    let [_, _, recorded, by_name, by_lease, buried, by_agent, expired, _, _, submitted, granted] =
        answers;
    let taken_back = [by_name, by_lease, by_agent, expired];
    Ok(Answers { recorded, taken_back, buried, submitted, granted })
}

fn verdicts(count: usize, lines: &[Line]) -> Result<Vec<Verdict>, StoreError> {
    let by_place: HashMap<i64, &Line> =
        lines.iter().map(|line| (line.get("place"), line)).collect();
    let verdict = |place: usize| {
        let line = by_place.get(&(place as i64 + 1))?;
        Verdict::named(line.get("verdict"), line.get("job_epoch"))
    };
    (0..count).map(|place| verdict(place).ok_or_else(|| unreadable("no verdict"))).collect()
}

fn agent_name(line: &Line) -> AgentName {
    AgentName { namespace: line.get("namespace"), name: line.get("name") }
}

fn tasks(grants: &[Grant], lines: &[Line]) -> Result<Vec<Vec<Task>>, StoreError> {
    let mut by_row = HashMap::new();
    for line in lines {
        let task = task(line)?;
        by_row.insert(task.row, task);
    }
    // In the order in which they were picked.
    let of = |grant: &Grant| grant.jobs.iter().filter_map(|(row, _)| by_row.remove(row)).collect();
    Ok(grants.iter().map(of).collect())
}

/// Those that are not new are compared with what has their id.
async fn submitted(
    store: &PostgresStore,
    jobs: &[NewJob],
    lines: &[Line],
) -> (Vec<Submitted>, Vec<Queued>) {
    let new: HashMap<(&str, &str), i64> = lines
        .iter()
        .map(|line| ((line.get("namespace"), line.get("job_id")), line.get("row_number")))
        .collect();
    let name = |job: &NewJob| (job.namespace.clone(), job.job_id.clone());
    let old: Vec<_> = jobs
        .iter()
        .map(|job| (job.namespace.as_str(), job.job_id.as_str()))
        .filter(|name| !new.contains_key(name))
        .collect();
    let looked_up = match old.is_empty() {
        true => Ok(Vec::new()),
        false => store.contents(&old).await,
    };
    // What was written is written, whether or not this can be said.
    let known: Option<HashMap<(String, String), Vec<u8>>> = looked_up.ok().map(|lines| {
        let name = |line: &Line| (line.get("namespace"), line.get("job_id"));
        lines.iter().map(|line| (name(line), line.get("content_hash"))).collect()
    });
    let answers = jobs.iter().map(|job| match &known {
        _ if new.contains_key(&(job.namespace.as_str(), job.job_id.as_str())) => Submitted::Stored,
        Some(known) => compare(job, known.get(&name(job)).map(Vec::as_slice)),
        None => Submitted::Unknown,
    });
    let answers = answers.collect();
    let queued = jobs.iter().filter_map(|job| {
        let row = *new.get(&(job.namespace.as_str(), job.job_id.as_str()))?;
        Some(Queued::of(job, row))
    });
    (answers, queued.collect())
}

/// The columns of heartbeats.
struct Heard<'r> {
    namespaces: Vec<&'r str>,
    names: Vec<&'r str>,
    labels: Vec<&'r str>,
    capabilities: Vec<&'r str>,
    profiles: Vec<&'r str>,
    metrics: Vec<&'r str>,
    names_leases: Vec<bool>,
    /// Who names which, from 1.
    named_by: Vec<i64>,
    leases: Vec<&'r str>,
}

impl<'r> Heard<'r> {
    fn of(heartbeats: &'r [Heartbeat]) -> Self {
        let column = |of: fn(&Heartbeat) -> &str| heartbeats.iter().map(of).collect();
        let named = heartbeats.iter().zip(1_i64..).flat_map(|(one, place)| {
            one.leases.iter().flatten().map(move |lease| (place, lease.as_str()))
        });
        let (named_by, leases) = named.unzip();
        Self {
            namespaces: column(|one| &one.namespace),
            names: column(|one| &one.name),
            labels: column(|one| one.labels.get()),
            capabilities: column(|one| one.capabilities.get()),
            profiles: column(|one| one.worker_profile.get()),
            metrics: column(|one| one.metrics.get()),
            names_leases: heartbeats.iter().map(|one| one.leases.is_some()).collect(),
            named_by,
            leases,
        }
    }

    fn parameters<'p>(&'p self, epoch: &'p i64, lease: &'p i64) -> Parameters<'p> {
        let Self { namespaces, names, labels, capabilities, profiles, metrics, .. } = self;
        let mut all: Parameters<'p> =
            vec![epoch, namespaces, names, labels, capabilities, profiles, metrics];
        all.extend::<Parameters<'p>>(vec![&self.names_leases, &self.named_by, &self.leases, lease]);
        all
    }
}

/// The columns of results.
struct Results<'r> {
    namespaces: Vec<Option<&'r str>>,
    leases: Vec<&'r str>,
    agents: Vec<Option<&'r str>>,
    ids: Vec<&'r str>,
    epochs: Vec<i64>,
    statuses: Vec<&'static str>,
    results: Vec<Option<&'r str>>,
    errors: Vec<Option<&'r str>>,
}

impl<'r> Results<'r> {
    fn of(reported: &'r [Reported]) -> Self {
        let each = reported.iter();
        Self {
            namespaces: each.clone().map(|one| one.namespace.as_deref()).collect(),
            leases: each.clone().map(|one| one.lease_id.as_str()).collect(),
            agents: each.clone().map(|one| one.agent.as_deref()).collect(),
            ids: each.clone().map(|one| one.job_id.as_str()).collect(),
            epochs: each.clone().map(|one| one.job_epoch).collect(),
            statuses: each.clone().map(|one| one.status.as_str()).collect(),
            results: each.clone().map(|one| one.result.as_deref().map(RawValue::get)).collect(),
            errors: each.map(|one| one.error.as_deref()).collect(),
        }
    }

    fn parameters<'p>(&'p self, epoch: &'p i64) -> Parameters<'p> {
        let Self { namespaces, leases, agents, ids, epochs, statuses, results, errors } = self;
        vec![epoch, namespaces, leases, agents, ids, epochs, statuses, results, errors]
    }
}

/// The columns of jobs that are taken from their agents.
struct Recalls<'r> {
    namespaces: Vec<&'r str>,
    ids: Vec<&'r str>,
    reasons: Vec<&'r str>,
}

impl<'r> Recalls<'r> {
    fn of(recalls: &'r [Recall]) -> Self {
        Self {
            namespaces: recalls.iter().map(|one| one.namespace.as_str()).collect(),
            ids: recalls.iter().map(|one| one.job_id.as_str()).collect(),
            reasons: recalls.iter().map(|one| one.reason.as_str()).collect(),
        }
    }

    fn parameters<'p>(&'p self, epoch: &'p i64) -> Parameters<'p> {
        vec![epoch, &self.namespaces, &self.ids, &self.reasons]
    }
}

/// The columns of agents' names.
struct Names<'r> {
    namespaces: Vec<Option<&'r str>>,
    names: Vec<&'r str>,
}

impl<'r> Names<'r> {
    fn of(agents: &'r [AgentName]) -> Self {
        Self {
            namespaces: agents.iter().map(|one| Some(one.namespace.as_str())).collect(),
            names: agents.iter().map(|one| one.name.as_str()).collect(),
        }
    }

    fn parameters<'p>(&'p self, epoch: &'p i64) -> Parameters<'p> {
        vec![epoch, &self.namespaces, &self.names]
    }
}

/// The columns of new jobs.
struct Jobs<'r> {
    namespaces: Vec<&'r str>,
    ids: Vec<&'r str>,
    ops: Vec<&'r str>,
    payloads: Vec<&'r str>,
    hashes: Vec<&'r [u8]>,
    priorities: Vec<i16>,
    pinned: Vec<Option<&'r str>>,
}

impl<'r> Jobs<'r> {
    fn of(jobs: &'r [NewJob]) -> Self {
        let each = jobs.iter();
        Self {
            namespaces: each.clone().map(|job| job.namespace.as_str()).collect(),
            ids: each.clone().map(|job| job.job_id.as_str()).collect(),
            ops: each.clone().map(|job| job.op.as_str()).collect(),
            payloads: each.clone().map(|job| job.payload.get()).collect(),
            hashes: each.clone().map(|job| job.content_hash.as_slice()).collect(),
            priorities: each.clone().map(|job| job.priority).collect(),
            pinned: each.map(|job| job.pinned_agent.as_deref()).collect(),
        }
    }

    fn parameters<'p>(&'p self, epoch: &'p i64) -> Parameters<'p> {
        let Self { namespaces, ids, ops, payloads, hashes, priorities, pinned } = self;
        vec![epoch, namespaces, ids, ops, payloads, hashes, priorities, pinned]
    }
}

/// The columns of leases, and of the jobs that they have.
struct Grants<'r> {
    rows: Vec<i64>,
    epochs: Vec<i64>,
    which: Vec<i64>,
    leases: Vec<&'r str>,
    namespaces: Vec<&'r str>,
    agents: Vec<&'r str>,
}

impl<'r> Grants<'r> {
    fn of(grants: &'r [Grant]) -> Self {
        let jobs = grants.iter().zip(1_i64..);
        let jobs = jobs.flat_map(|(grant, which)| grant.jobs.iter().map(move |job| (*job, which)));
        let jobs: Vec<_> = jobs.collect();
        Self {
            rows: jobs.iter().map(|((row, _), _)| *row).collect(),
            epochs: jobs.iter().map(|((_, epoch), _)| *epoch).collect(),
            which: jobs.iter().map(|(_, which)| *which).collect(),
            leases: grants.iter().map(|grant| grant.lease_id.as_str()).collect(),
            namespaces: grants.iter().map(|grant| grant.namespace.as_str()).collect(),
            agents: grants.iter().map(|grant| grant.agent.as_str()).collect(),
        }
    }

    fn parameters<'p>(&'p self, epoch: &'p i64, lease: &'p i64) -> Parameters<'p> {
        let Self { rows, epochs, which, leases, namespaces, agents } = self;
        vec![epoch, rows, epochs, which, leases, namespaces, agents, lease]
    }
}
