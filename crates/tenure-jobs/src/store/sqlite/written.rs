//! A round, written: statement by statement, in the one transaction that has the file.

use rusqlite::{OptionalExtension, Transaction, named_params};
use tenure::Term;

use super::{all, micros, rows};
use crate::{
    agent::Heartbeat,
    job::NewJob,
    queue::Queued,
    round::{AgentName, Grant, Reported, Round, Submitted, Task, Verdict, Written},
    store::{
        Patience, StoreError, Takeover,
        columns::{json, unreadable},
        compare, refuse_other,
    },
};

macro_rules! write {
    ($name:literal) => {
        include_str!(concat!("../../../sql/sqlite/write/", $name, ".sql"))
    };
}

/// A transaction that has passed the fence.
pub(super) struct Writing<'t> {
    transaction: &'t Transaction<'t>,
    term: &'t Term,
    /// The moment of all its writes.
    now: i64,
    /// The last number that an event got.
    event_number: i64,
    /// The same, when this began.
    begun_at: i64,
    /// Whose jobs these are.
    scope: String,
}

/// What has happened.
struct Told<'w> {
    namespace: &'w str,
    kind: &'w str,
    job: Option<(&'w str, i64)>,
    agent: Option<&'w str>,
    detail: Option<&'w str>,
}

/// A job that is to be taken back, and whose it is.
type Chosen = (i64, Option<String>);

impl<'t> Writing<'t> {
    pub(super) fn begin(
        transaction: &'t Transaction<'t>,
        term: &'t Term,
    ) -> Result<Self, StoreError> {
        let mut begin = transaction.prepare_cached(write!("begin"))?;
        Ok(begin.query_row([], |row| {
            let event_number = row.get("event_number")?;
            let (now, scope) = (row.get("now")?, row.get("scope")?);
            Ok(Self { transaction, term, now, event_number, begun_at: event_number, scope })
        })?)
    }

    /// Keeps the number of the last event.
    pub(super) fn end(self) -> Result<(), StoreError> {
        if self.event_number > self.begun_at {
            self.run(write!("number"), named_params! { ":event_number": self.event_number })?;
        }
        Ok(())
    }

    pub(super) fn take_over(&mut self, takeover: &Takeover, window: i64) -> Result<(), StoreError> {
        refuse_other(&self.scope, self.term)?;
        let (epoch, leader) = (self.epoch(), self.term.holder().as_str());
        let scope = self.term.scope().as_str();
        self.run(write!("take_over/claim"), named_params! { ":scope": scope })?;
        self.run(
            write!("take_over/leader"),
            named_params! {
                ":leader_epoch": epoch,
                ":leader_id": leader,
                ":leader_url": takeover.leader_url,
                ":now": self.now,
            },
        )?;
        let until = named_params! { ":until": self.now + window, ":leader_epoch": epoch };
        self.run(write!("take_over/extend"), until)?;
        let now = named_params! { ":now": self.now, ":leader_epoch": epoch };
        self.run(write!("take_over/hear"), now)?;
        let (agent, detail) = (Some(leader), takeover.leader_url.as_deref());
        self.tell(&Told { namespace: "", kind: "role.changed", job: None, agent, detail })?;
        if let Some(name) = &takeover.dead_agent {
            let chosen = self.leases_of(None, name)?;
            self.take_back(chosen, "the agent's node leads now")?;
        }
        Ok(())
    }

    pub(super) fn write(
        &mut self,
        round: &Round,
        patience: &Patience,
    ) -> Result<Written, StoreError> {
        let lease = micros(patience.job_lease);
        let mut written = Written::default();
        for heartbeat in &round.heartbeats {
            self.hear(heartbeat, lease)?;
        }
        for reported in &round.results {
            written.verdicts.push(self.record(reported)?);
        }
        for recall in &round.recalls {
            let name = named_params! { ":namespace": recall.namespace, ":job_id": recall.job_id };
            let chosen = self.choose(write!("take_back/job"), name)?;
            written.queued.extend(self.take_back(chosen, &recall.reason)?);
        }
        for lease_id in &round.strays {
            let lease = named_params! { ":lease_id": lease_id };
            let chosen = self.choose(write!("take_back/lease"), lease)?;
            written.queued.extend(self.take_back(chosen, "the agent was not told")?);
        }
        for agent in &round.burials {
            if self.age(agent, "tombstoned")? {
                self.tell(&Told::of(agent, "agent_tombstoned", Some("asked")))?;
                written.buried.push(agent.clone());
            }
            let chosen = self.leases_of(Some(&agent.namespace), &agent.name)?;
            written.queued.extend(self.take_back(chosen, "the agent was deleted")?);
        }
        if round.reaps {
            let now = named_params! { ":now": self.now };
            let chosen = self.choose(write!("take_back/expired"), now)?;
            written.queued.extend(self.take_back(chosen, "lease expired")?);
            self.age_agents(patience)?;
            let up_to = self.event_number - patience.events_kept;
            self.run(write!("prune"), named_params! { ":up_to": up_to })?;
        }
        for job in &round.jobs {
            let (submitted, queued) = self.submit(job)?;
            written.submitted.push(submitted);
            written.queued.extend(queued);
        }
        for grant in &round.grants {
            written.tasks.push(self.grant(grant, lease)?);
        }
        Ok(written)
    }

    fn epoch(&self) -> i64 {
        self.term.epoch().get()
    }

    fn run(
        &self,
        sql: &str,
        parameters: &[(&str, &dyn rusqlite::ToSql)],
    ) -> Result<usize, StoreError> {
        Ok(self.transaction.prepare_cached(sql)?.execute(parameters)?)
    }

    fn tell(&mut self, told: &Told<'_>) -> Result<(), StoreError> {
        self.event_number += 1;
        self.run(
            write!("tell"),
            named_params! {
                ":event_number": self.event_number,
                ":namespace": told.namespace,
                ":kind": told.kind,
                ":job_id": told.job.map(|(id, _)| id),
                ":job_epoch": told.job.map(|(_, epoch)| epoch),
                ":agent": told.agent,
                ":detail": told.detail,
                ":leader_epoch": self.epoch(),
                ":now": self.now,
            },
        )?;
        Ok(())
    }

    fn hear(&self, heartbeat: &Heartbeat, lease: i64) -> Result<(), StoreError> {
        let Heartbeat { namespace, name, .. } = heartbeat;
        let extend = |lease_id: Option<&String>| {
            self.run(
                write!("extend"),
                named_params! {
                    ":namespace": namespace,
                    ":name": name,
                    ":lease_id": lease_id,
                    ":now": self.now,
                    ":until": self.now + lease,
                    ":soon": self.now + lease * 2 / 3,
                    ":leader_epoch": self.epoch(),
                },
            )
        };
        match &heartbeat.leases {
            Some(named) => named.iter().try_for_each(|id| extend(Some(id)).map(drop))?,
            None => drop(extend(None)?),
        }
        self.run(
            write!("hear"),
            named_params! {
                ":namespace": namespace,
                ":name": name,
                ":labels": heartbeat.labels.get(),
                ":capabilities": heartbeat.capabilities.get(),
                ":worker_profile": heartbeat.worker_profile.get(),
                ":metrics": heartbeat.metrics.get(),
                ":leader_epoch": self.epoch(),
                ":now": self.now,
            },
        )?;
        Ok(())
    }

    fn record(&mut self, reported: &Reported) -> Result<Verdict, StoreError> {
        let status = reported.status.as_str();
        let result = reported.result.as_deref().map(serde_json::value::RawValue::get);
        let mut judge = self.transaction.prepare_cached(write!("judge"))?;
        let parameters = named_params! {
            ":namespace": reported.namespace,
            ":lease_id": reported.lease_id,
            ":agent": reported.agent,
            ":job_id": reported.job_id,
            ":job_epoch": reported.job_epoch,
            ":status": status,
            ":result": result,
            ":error": reported.error,
            ":now": self.now,
        };
        let (job, said) = judge.query_row(parameters, |row| {
            let job: Option<i64> = row.get("row_number")?;
            let job = job.map(|number| {
                Ok::<_, rusqlite::Error>(Judged {
                    row: number,
                    namespace: row.get("namespace")?,
                    job_epoch: row.get("job_epoch")?,
                    leased_by: row.get("leased_by")?,
                })
            });
            Ok((job.transpose()?, row.get::<_, String>("verdict")?))
        })?;
        let epoch = job.as_ref().map(|job| job.job_epoch);
        let verdict = Verdict::named(&said, epoch).ok_or_else(|| unreadable("no verdict"))?;
        let Some(job) = job else { return Ok(verdict) };
        let (kind, detail) = match verdict {
            Verdict::Accepted => ("job.result.accepted", status),
            Verdict::Duplicate => ("job.result.duplicate", status),
            _ => ("job.result.rejected", said.as_str()),
        };
        let told = Told {
            namespace: &job.namespace,
            kind,
            job: Some((&reported.job_id, job.job_epoch)),
            agent: job.leased_by.as_deref(),
            detail: Some(detail),
        };
        self.tell(&told)?;
        if verdict == Verdict::Accepted {
            self.end_job(job.row, reported, result)?;
            self.tell(&Told { kind: "job.completed", ..told })?;
        }
        Ok(verdict)
    }

    fn end_job(
        &self,
        row: i64,
        reported: &Reported,
        result: Option<&str>,
    ) -> Result<(), StoreError> {
        let (status, epoch) = (reported.status.as_str(), self.epoch());
        self.run(
            write!("end"),
            named_params! {
                ":row_number": row, ":status": status, ":leader_epoch": epoch, ":now": self.now,
            },
        )?;
        self.run(
            write!("keep_result"),
            named_params! {
                ":row_number": row,
                ":job_epoch": reported.job_epoch,
                ":lease_id": reported.lease_id,
                ":status": status,
                ":result": result,
                ":error": reported.error,
                ":leader_epoch": epoch,
                ":now": self.now,
            },
        )?;
        Ok(())
    }

    fn choose(
        &self,
        sql: &str,
        parameters: &[(&str, &dyn rusqlite::ToSql)],
    ) -> Result<Vec<Chosen>, StoreError> {
        all(self.transaction, sql, parameters, |row| {
            Ok::<_, rusqlite::Error>((row.get("row_number")?, row.get("leased_by")?))
        })
    }

    fn leases_of(&self, namespace: Option<&str>, name: &str) -> Result<Vec<Chosen>, StoreError> {
        let agent = named_params! { ":namespace": namespace, ":name": name };
        self.choose(write!("take_back/agent"), agent)
    }

    fn take_back(&mut self, chosen: Vec<Chosen>, reason: &str) -> Result<Vec<Queued>, StoreError> {
        let mut back = Vec::new();
        for (row, agent) in chosen {
            let which = named_params! { ":row_number": row, ":leader_epoch": self.epoch() };
            let mut statement = self.transaction.prepare_cached(write!("take_back"))?;
            let taken = statement
                .query_row(which, |row| Ok((rows::queued(row)?, row.get::<_, String>("job_id")?)));
            let Some((queued, job_id)) = taken.optional()? else { continue };
            self.tell(&Told {
                namespace: &queued.namespace,
                kind: "job.expired",
                job: Some((&job_id, queued.job_epoch)),
                agent: agent.as_deref(),
                detail: Some(reason),
            })?;
            back.push(queued);
        }
        Ok(back)
    }

    /// Whether it was something else before.
    fn age(&self, agent: &AgentName, state: &str) -> Result<bool, StoreError> {
        let changed = self.run(
            write!("age"),
            named_params! {
                ":namespace": agent.namespace,
                ":name": agent.name,
                ":state": state,
                ":leader_epoch": self.epoch(),
            },
        )?;
        Ok(changed > 0)
    }

    fn age_agents(&mut self, patience: &Patience) -> Result<(), StoreError> {
        let before = |silence| self.now - micros(silence);
        let silent = named_params! {
            ":stale": before(patience.stale_after),
            ":tombstoned": before(patience.tombstone_after),
            ":deleted": before(patience.forget_after),
        };
        let aging = all(self.transaction, write!("silent"), silent, |row| {
            let agent = AgentName { namespace: row.get("namespace")?, name: row.get("name")? };
            Ok::<_, rusqlite::Error>((agent, row.get::<_, String>("aging")?))
        })?;
        for (agent, state) in aging {
            let kind = match state.as_str() {
                "stale" => "agent.stale",
                "tombstoned" => "agent_tombstoned",
                _ => "agent_deleted",
            };
            if state == "deleted" {
                let name = named_params! { ":namespace": agent.namespace, ":name": agent.name };
                self.run(write!("forget"), name)?;
            } else {
                self.age(&agent, &state)?;
            }
            self.tell(&Told::of(&agent, kind, None))?;
        }
        Ok(())
    }

    fn submit(&mut self, job: &NewJob) -> Result<(Submitted, Option<Queued>), StoreError> {
        let mut statement = self.transaction.prepare_cached(write!("submit"))?;
        let parameters = named_params! {
            ":namespace": job.namespace,
            ":job_id": job.job_id,
            ":op": job.op,
            ":payload": job.payload.get(),
            ":content_hash": job.content_hash,
            ":priority": job.priority,
            ":pinned_agent": job.pinned_agent,
            ":leader_epoch": self.epoch(),
            ":now": self.now,
        };
        let row: Option<i64> = statement.query_row(parameters, |row| row.get(0)).optional()?;
        let Some(row) = row else {
            return Ok((compare(job, self.content(job)?.as_deref()), None));
        };
        self.tell(&Told {
            namespace: &job.namespace,
            kind: "job.updated",
            job: Some((&job.job_id, 1)),
            agent: None,
            detail: Some("queued"),
        })?;
        Ok((Submitted::Stored, Some(Queued::of(job, row))))
    }

    fn content(&self, job: &NewJob) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = include_str!("../../../sql/sqlite/read/content.sql");
        let name = named_params! { ":namespace": job.namespace, ":job_id": job.job_id };
        let mut statement = self.transaction.prepare_cached(sql)?;
        Ok(statement.query_row(name, |row| row.get(0)).optional()?)
    }

    fn grant(&mut self, grant: &Grant, lease: i64) -> Result<Vec<Task>, StoreError> {
        let mut tasks = Vec::with_capacity(grant.jobs.len());
        for (row, job_epoch) in &grant.jobs {
            let mut statement = self.transaction.prepare_cached(write!("grant"))?;
            let parameters = named_params! {
                ":row_number": row,
                ":job_epoch": job_epoch,
                ":lease_id": grant.lease_id,
                ":agent": grant.agent,
                ":until": self.now + lease,
                ":leader_epoch": self.epoch(),
                ":now": self.now,
            };
            let leased = statement.query_row(parameters, |row| {
                Ok((
                    row.get::<_, String>("job_id")?,
                    row.get::<_, String>("op")?,
                    row.get::<_, String>("payload")?,
                    row.get("pinned_agent")?,
                ))
            });
            let Some((job_id, op, payload, pinned_agent)) = leased.optional()? else { continue };
            self.tell(&Told {
                namespace: &grant.namespace,
                kind: "job.leased",
                job: Some((&job_id, *job_epoch)),
                agent: Some(&grant.agent),
                detail: None,
            })?;
            let payload = json(payload)?;
            tasks.push(Task {
                row: *row,
                job_id,
                job_epoch: *job_epoch,
                op,
                payload,
                pinned_agent,
            });
        }
        if !tasks.is_empty() {
            self.run(
                write!("keep_lease"),
                named_params! {
                    ":lease_id": grant.lease_id,
                    ":namespace": grant.namespace,
                    ":agent": grant.agent,
                    ":leader_epoch": self.epoch(),
                    ":now": self.now,
                },
            )?;
        }
        Ok(tasks)
    }
}

/// The job that a result is for.
struct Judged {
    row: i64,
    namespace: String,
    job_epoch: i64,
    leased_by: Option<String>,
}

impl<'w> Told<'w> {
    fn of(agent: &'w AgentName, kind: &'w str, detail: Option<&'w str>) -> Self {
        let AgentName { namespace, name } = agent;
        Self { namespace, kind, job: None, agent: Some(name), detail }
    }
}
