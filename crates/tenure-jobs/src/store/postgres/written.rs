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
    round::{
        AgentName, Grant, Reaped, Reaping, Recall, Recalled, Reported, Round, RunOut, Standing,
        Submitted, Task, Verdict, Written,
    },
    store::{Patience, StoreError, columns::unreadable, compare},
};

type Parameters<'p> = Vec<&'p (dyn ToSql + Sync)>;

/// What each statement answered, in the order of the round.
struct Answers {
    heard: Vec<Line>,
    recorded: Vec<Line>,
    stood: Vec<Line>,
    by_name: Vec<Line>,
    by_lease: Vec<Line>,
    buried: Vec<Line>,
    by_agent: Vec<Line>,
    expired: Vec<Line>,
    overdue: Vec<Line>,
    woken: Vec<Line>,
    aged: Vec<Line>,
    submitted: Vec<Line>,
    granted: Vec<Line>,
}

impl Answers {
    /// What can be leased again.
    fn back(&self) -> impl Iterator<Item = Queued> {
        let Self { by_name, by_lease, by_agent, expired, overdue, woken, recorded, .. } = self;
        let taken = [by_name, by_lease, by_agent, expired, overdue].into_iter().flatten();
        let again = taken.filter(|line| !line.get::<_, bool>("is_over"));
        let given_back =
            recorded.iter().filter(|line| line.get::<_, Option<bool>>("is_ready") == Some(true));
        again.chain(woken).chain(given_back).map(queued)
    }

    fn reaped(&self) -> Reaped {
        let aged = self.aged.first().map_or(0, |line| line.get::<_, i64>("aged"));
        let run_out = [self.expired.len(), self.overdue.len(), self.woken.len()];
        Reaped {
            emptied: self.by_agent.len(),
            run_out: run_out.into_iter().chain(usize::try_from(aged)).max().unwrap_or(0),
        }
    }
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
    newly_queued.extend(answers.back());
    let (gone, extended) = heard(round.heartbeats.len(), &answers.heard);
    Ok(Written {
        gone,
        extended,
        verdicts: verdicts(round.results.len(), &answers.recorded)?,
        recalled: recalled(round.recalls.len(), &answers.stood),
        buried: answers.buried.iter().map(agent_name).collect(),
        submitted,
        tasks: tasks(&round.grants, &answers.granted)?,
        queued: newly_queued,
        reaped: answers.reaped(),
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
    let most = i64::try_from(round.most).unwrap_or(i64::MAX);
    let (heard, results) = (Heard::of(&round.heartbeats), Results::of(&round.results));
    let (recalls, burials) = (Recalls::of(&round.recalls), Names::of(&round.burials));
    let (jobs, grants) = (Jobs::of(&round.jobs), Grants::of(&round.grants));
    let silences = [patience.stale_after, patience.tombstone_after, patience.forget_after];
    let [stale, tombstoned, forgotten] = silences.map(millis);
    let nothing = Reaping::default();
    let Reaping { strays, emptied, run_out } = round.reaping.as_ref().unwrap_or(&nothing);
    let looks = run_out.is_some();
    let RunOut { spares, agents } = run_out.unwrap_or_default();
    let emptied = emptied.as_ref();
    let (namespace, name) =
        (emptied.and_then(|one| one.namespace.as_ref()), emptied.map(|one| &one.name));
    let why = emptied.map(|one| one.reason);

    let statements: [(bool, &Statement, Parameters<'_>); 15] = [
        (true, &prepared.begin, vec![]),
        (
            !round.heartbeats.is_empty(),
            &prepared.hear,
            heard.parameters(&epoch, &lease, &round.spares, &most),
        ),
        (!round.results.is_empty(), &prepared.record, results.parameters(&epoch, &round.spares)),
        (!round.recalls.is_empty(), &prepared.stand_of, recalls.named()),
        (!round.recalls.is_empty(), &prepared.recall_jobs, recalls.parameters(&epoch)),
        (!strays.is_empty(), &prepared.recall_leases, vec![&epoch, strays]),
        (!round.burials.is_empty(), &prepared.bury, burials.parameters(&epoch)),
        (emptied.is_some(), &prepared.recall_agents, vec![&epoch, &namespace, &name, &why, &most]),
        (looks, &prepared.recall_expired, vec![&epoch, &most, &spares]),
        (looks, &prepared.recall_overdue, vec![&epoch, &most]),
        (looks, &prepared.wake, vec![&epoch, &most]),
        (looks && agents, &prepared.age, vec![&epoch, &stale, &tombstoned, &forgotten, &most]),
        (looks, &prepared.prune, vec![&patience.events_kept, &most]),
        (!round.jobs.is_empty(), &prepared.submit, jobs.parameters(&epoch)),
        (!round.grants.is_empty(), &prepared.grant, grants.parameters(&epoch, &lease)),
    ];
    let wanted = statements.iter().filter(|(is_wanted, ..)| *is_wanted);
    let calls = wanted.map(|(_, statement, parameters)| Call { statement, parameters });
    let calls: Vec<_> = calls.collect();
    let mut answers = fence::together(client, term, &calls).await?.into_iter();
    let mut answers = statements.iter().map(|(is_wanted, ..)| match is_wanted {
        true => answers.next().unwrap_or_default(),
        false => Vec::new(),
    });
    let mut next = || answers.next().unwrap_or_default();
    // In the order of the statements; the first and the one that forgets events say nothing.
    next();
    Ok(Answers {
        heard: next(),
        recorded: next(),
        stood: next(),
        by_name: next(),
        by_lease: next(),
        buried: next(),
        by_agent: next(),
        expired: next(),
        overdue: next(),
        woken: next(),
        aged: next(),
        submitted: {
            next();
            next()
        },
        granted: next(),
    })
}

/// Which of the leases that each heartbeat names are gone, and how many were moved ahead.
fn heard(count: usize, lines: &[Line]) -> (Vec<Vec<String>>, usize) {
    let (mut gone, mut extended) = (vec![Vec::new(); count], 0);
    for line in lines {
        let place = usize::try_from(line.get::<_, i64>("place")).unwrap_or(0);
        match place.checked_sub(1).and_then(|place| gone.get_mut(place)) {
            Some(gone) => gone.push(line.get("lease_id")),
            None => extended = usize::try_from(line.get::<_, i64>("extended")).unwrap_or(0),
        }
    }
    (gone, extended)
}

fn recalled(count: usize, lines: &[Line]) -> Vec<Recalled> {
    let mut recalled = vec![Recalled::NotFound; count];
    for line in lines {
        let standing = Standing {
            job_epoch: line.get("job_epoch"),
            is_leased: line.get("is_leased"),
            is_other_epoch: line.get::<_, Option<bool>>("is_other_epoch").unwrap_or(false),
            is_other_lease: line.get("is_other_lease"),
        };
        let place = usize::try_from(line.get::<_, i64>("place") - 1).unwrap_or(usize::MAX);
        if let Some(one) = recalled.get_mut(place) {
            *one = standing.recalled();
        }
    }
    recalled
}

fn verdicts(count: usize, lines: &[Line]) -> Result<Vec<Verdict>, StoreError> {
    let by_place: HashMap<i64, &Line> =
        lines.iter().map(|line| (line.get("place"), line)).collect();
    let verdict = |place: usize| {
        let line = by_place.get(&(place as i64 + 1))?;
        Verdict::named(line.get("verdict"), line.get("told_epoch"))
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

    fn parameters<'p>(
        &'p self,
        epoch: &'p i64,
        lease: &'p i64,
        spares: &'p bool,
        most: &'p i64,
    ) -> Parameters<'p> {
        let Self { namespaces, names, labels, capabilities, profiles, metrics, .. } = self;
        let mut all: Parameters<'p> =
            vec![epoch, namespaces, names, labels, capabilities, profiles, metrics];
        all.extend::<Parameters<'p>>(vec![&self.names_leases, &self.named_by, &self.leases]);
        all.extend::<Parameters<'p>>(vec![lease, spares, most]);
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
    error_values: Vec<Option<&'r str>>,
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
            errors: each.clone().map(|one| one.error.as_ref()?.text()).collect(),
            error_values: each.map(|one| one.error.as_ref()?.value()).collect(),
        }
    }

    fn parameters<'p>(&'p self, epoch: &'p i64, spares: &'p bool) -> Parameters<'p> {
        let Self { namespaces, leases, agents, ids, epochs, statuses, results, .. } = self;
        let mut all: Parameters<'p> =
            vec![epoch, namespaces, leases, agents, ids, epochs, statuses, results];
        all.extend::<Parameters<'p>>(vec![&self.errors, &self.error_values, spares]);
        all
    }
}

/// The columns of jobs that are taken from their agents.
struct Recalls<'r> {
    namespaces: Vec<&'r str>,
    ids: Vec<&'r str>,
    epochs: Vec<Option<i64>>,
    leases: Vec<Option<&'r str>>,
    reasons: Vec<&'r str>,
}

impl<'r> Recalls<'r> {
    fn of(recalls: &'r [Recall]) -> Self {
        Self {
            namespaces: recalls.iter().map(|one| one.namespace.as_str()).collect(),
            ids: recalls.iter().map(|one| one.job_id.as_str()).collect(),
            epochs: recalls.iter().map(|one| one.job_epoch).collect(),
            leases: recalls.iter().map(|one| one.lease_id.as_deref()).collect(),
            reasons: recalls.iter().map(|one| one.reason.as_str()).collect(),
        }
    }

    fn named(&self) -> Parameters<'_> {
        vec![&self.namespaces, &self.ids, &self.epochs, &self.leases]
    }

    fn parameters<'p>(&'p self, epoch: &'p i64) -> Parameters<'p> {
        let Self { namespaces, ids, epochs, leases, reasons } = self;
        vec![epoch, namespaces, ids, epochs, leases, reasons]
    }
}

/// The columns of agents' names.
struct Names<'r> {
    namespaces: Vec<&'r str>,
    names: Vec<&'r str>,
}

impl<'r> Names<'r> {
    fn of(agents: &'r [AgentName]) -> Self {
        Self {
            namespaces: agents.iter().map(|one| one.namespace.as_str()).collect(),
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
    lost_leases: Vec<Option<i32>>,
    failures: Vec<Option<i32>>,
    retries: Vec<Option<i64>>,
    runs: Vec<Option<i64>>,
    deadlines: Vec<Option<i64>>,
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
            pinned: each.clone().map(|job| job.pinned_agent.as_deref()).collect(),
            lost_leases: each.clone().map(|job| job.limits.lost_leases).collect(),
            failures: each.clone().map(|job| job.limits.failures).collect(),
            retries: each.clone().map(|job| job.limits.retry_after.map(millis)).collect(),
            runs: each.clone().map(|job| job.limits.run.map(millis)).collect(),
            deadlines: each.map(|job| job.limits.deadline.map(millis)).collect(),
        }
    }

    fn parameters<'p>(&'p self, epoch: &'p i64) -> Parameters<'p> {
        let Self { namespaces, ids, ops, payloads, hashes, priorities, pinned, .. } = self;
        let mut all: Parameters<'p> =
            vec![epoch, namespaces, ids, ops, payloads, hashes, priorities, pinned];
        let Self { lost_leases, failures, retries, runs, deadlines, .. } = self;
        all.extend::<Parameters<'p>>(vec![lost_leases, failures, retries, runs, deadlines]);
        all
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
    last: Vec<Option<i64>>,
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
            last: grants.iter().map(|grant| grant.lasts.map(millis)).collect(),
        }
    }

    fn parameters<'p>(&'p self, epoch: &'p i64, lease: &'p i64) -> Parameters<'p> {
        let Self { rows, epochs, which, leases, namespaces, agents, last } = self;
        vec![epoch, rows, epochs, which, leases, namespaces, agents, last, lease]
    }
}
