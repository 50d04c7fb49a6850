//! A round, written: statement by statement, in the one transaction that has the file.

use rusqlite::{OptionalExtension, Transaction, named_params};
use serde_json::value::RawValue;
use tenure::Term;

use super::{micros, rows, write};
use crate::{
    agent::Heartbeat,
    job::NewJob,
    queue::Queued,
    round::{AgentName, Grant, JobError, Reported, Round, Submitted, Task, Verdict, Written},
    store::{
        Patience, StoreError,
        columns::{json, unreadable},
        compare, new_history, refuse_other,
    },
};

/// A transaction that has passed the fence.
pub(super) struct Writing<'t> {
    pub(super) transaction: &'t Transaction<'t>,
    term: &'t Term,
    /// The moment of all its writes.
    pub(super) now: i64,
    /// The last number that an event got.
    pub(super) event_number: i64,
    /// The same, when this began.
    begun_at: i64,
    /// Whose jobs these are.
    scope: String,
}

/// What has happened.
#[derive(Clone, Copy, Default)]
pub(super) struct Told<'w> {
    pub namespace: &'w str,
    pub kind: &'w str,
    pub job: Option<(&'w str, i64)>,
    pub agent: Option<&'w str>,
    pub detail: Option<&'w str>,
    pub lease_id: Option<&'w str>,
}

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

    pub(super) fn take_over(&mut self, leader_url: Option<&str>) -> Result<(), StoreError> {
        refuse_other(&self.scope, self.term)?;
        let (epoch, leader) = (self.epoch(), self.term.holder().as_str());
        let scope = self.term.scope().as_str();
        self.run(write!("take_over/claim"), named_params! { ":scope": scope })?;
        self.run(
            write!("take_over/leader"),
            named_params! {
                ":leader_epoch": epoch,
                ":leader_id": leader,
                ":leader_url": leader_url,
                ":now": self.now,
                ":history": new_history(),
                ":first_event": self.event_number + 1,
            },
        )?;
        self.tell(&Told {
            kind: "role.changed",
            agent: Some(leader),
            detail: leader_url,
            ..Told::default()
        })
    }

    pub(super) fn write(
        &mut self,
        round: &Round,
        patience: &Patience,
    ) -> Result<Written, StoreError> {
        let lease = micros(patience.job_lease);
        let mut written = Written::default();
        for heartbeat in &round.heartbeats {
            let left = round.most.saturating_sub(written.extended);
            let (gone, extended) = self.hear(heartbeat, lease, round.spares, left)?;
            written.gone.push(gone);
            written.extended += extended;
        }
        for reported in &round.results {
            let (verdict, queued) = self.record(reported, round.spares)?;
            written.verdicts.push(verdict);
            written.queued.extend(queued);
        }
        for recall in &round.recalls {
            let (recalled, queued) = self.recall(recall)?;
            written.recalled.push(recalled);
            written.queued.extend(queued);
        }
        for agent in &round.burials {
            if self.age(agent, "tombstoned")? {
                self.tell(&Told::of(agent, "agent_tombstoned", Some("asked")))?;
                written.buried.push(agent.clone());
            }
        }
        if let Some(reaping) = &round.reaping {
            let (queued, reaped) = self.reap(reaping, patience, round.most)?;
            written.queued.extend(queued);
            written.reaped = reaped;
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

    pub(super) fn epoch(&self) -> i64 {
        self.term.epoch().get()
    }

    pub(super) fn run(
        &self,
        sql: &str,
        parameters: &[(&str, &dyn rusqlite::ToSql)],
    ) -> Result<usize, StoreError> {
        Ok(self.transaction.prepare_cached(sql)?.execute(parameters)?)
    }

    pub(super) fn tell(&mut self, told: &Told<'_>) -> Result<(), StoreError> {
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
                ":lease_id": told.lease_id,
                ":leader_epoch": self.epoch(),
                ":now": self.now,
            },
        )?;
        Ok(())
    }

    /// Which of the leases that it names are gone, and how many were moved ahead.
    fn hear(
        &self,
        heartbeat: &Heartbeat,
        lease: i64,
        spares: bool,
        most: usize,
    ) -> Result<(Vec<String>, usize), StoreError> {
        let Heartbeat { namespace, name, .. } = heartbeat;
        let extend = |lease_id: Option<&String>, most: usize| {
            self.run(
                write!("extend"),
                named_params! {
                    ":namespace": namespace,
                    ":name": name,
                    ":lease_id": lease_id,
                    ":lease": lease,
                    ":spares": spares,
                    ":most": i64::try_from(most).unwrap_or(i64::MAX),
                    ":now": self.now,
                    ":leader_epoch": self.epoch(),
                },
            )
        };
        let (mut gone, mut extended) = (Vec::new(), 0);
        match &heartbeat.leases {
            None => extended += extend(None, most)?,
            Some(named) => {
                for lease_id in named {
                    extended += extend(Some(lease_id), most.saturating_sub(extended))?;
                    if !self.holds(heartbeat, lease_id, spares)? {
                        gone.push(lease_id.clone());
                    }
                }
            }
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
        Ok((gone, extended))
    }

    fn holds(
        &self,
        heartbeat: &Heartbeat,
        lease_id: &str,
        spares: bool,
    ) -> Result<bool, StoreError> {
        let which = named_params! {
            ":namespace": heartbeat.namespace,
            ":name": heartbeat.name,
            ":lease_id": lease_id,
            ":spares": spares,
            ":now": self.now,
            ":leader_epoch": self.epoch(),
        };
        let mut holds = self.transaction.prepare_cached(write!("holds"))?;
        Ok(holds.query_row(which, |row| row.get(0))?)
    }

    /// What became of it, and the job if it can be leased again.
    fn record(
        &mut self,
        reported: &Reported,
        spares: bool,
    ) -> Result<(Verdict, Option<Queued>), StoreError> {
        let status = reported.status.as_str();
        let (said, job) = self.judge(reported, spares)?;
        let epoch = job.as_ref().map(|job| job.job_epoch);
        let verdict = Verdict::named(&said, epoch).ok_or_else(|| unreadable("no verdict"))?;
        let Some(job) = job else { return Ok((verdict, None)) };
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
            lease_id: None,
        };
        self.tell(&told)?;
        if verdict != Verdict::Accepted {
            return Ok((verdict, None));
        }
        if job.goes_on {
            let (queued, is_ready) = self.go_on(job.row, status)?;
            let next = Some((reported.job_id.as_str(), queued.job_epoch));
            self.tell(&Told { kind: "job.updated", job: next, detail: Some("queued"), ..told })?;
            return Ok((verdict, Some(queued).filter(|_| is_ready)));
        }
        self.end_job(job.row, reported)?;
        self.tell(&Told { kind: "job.completed", ..told })?;
        Ok((verdict, None))
    }

    fn judge(
        &self,
        reported: &Reported,
        spares: bool,
    ) -> Result<(String, Option<Judged>), StoreError> {
        let mut judge = self.transaction.prepare_cached(write!("judge"))?;
        let parameters = named_params! {
            ":namespace": reported.namespace,
            ":lease_id": reported.lease_id,
            ":agent": reported.agent,
            ":job_id": reported.job_id,
            ":job_epoch": reported.job_epoch,
            ":status": reported.status.as_str(),
            ":result": reported.result.as_deref().map(RawValue::get),
            ":error": reported.error.as_ref().and_then(JobError::text),
            ":error_value": reported.error.as_ref().and_then(JobError::value),
            ":spares": spares,
            ":now": self.now,
            ":leader_epoch": self.epoch(),
        };
        Ok(judge.query_row(parameters, |row| {
            let job: Option<i64> = row.get("row_number")?;
            let job = job.map(|number| {
                Ok::<_, rusqlite::Error>(Judged {
                    row: number,
                    namespace: row.get("namespace")?,
                    job_epoch: row.get("job_epoch")?,
                    leased_by: row.get("leased_by")?,
                    goes_on: row.get("goes_on")?,
                })
            });
            Ok((row.get("verdict")?, job.transpose()?))
        })?)
    }

    /// Queues a job again; whether it can be leased at once.
    fn go_on(&self, row: i64, status: &str) -> Result<(Queued, bool), StoreError> {
        let mut statement = self.transaction.prepare_cached(write!("go_on"))?;
        let parameters = named_params! {
            ":row_number": row,
            ":status": status,
            ":leader_epoch": self.epoch(),
            ":now": self.now,
        };
        Ok(statement.query_row(parameters, |row| Ok((rows::queued(row)?, row.get("is_ready")?)))?)
    }

    fn end_job(&self, row: i64, reported: &Reported) -> Result<(), StoreError> {
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
                ":result": reported.result.as_deref().map(RawValue::get),
                ":error": reported.error.as_ref().and_then(JobError::text),
                ":error_value": reported.error.as_ref().and_then(JobError::value),
                ":leader_epoch": epoch,
                ":now": self.now,
            },
        )?;
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
            ":max_lost_leases": job.limits.lost_leases,
            ":max_failures": job.limits.failures,
            ":retry_us": job.limits.retry_after.map(micros),
            ":run_us": job.limits.run.map(micros),
            ":deadline_us": job.limits.deadline.map(micros),
        };
        let row: Option<i64> = statement.query_row(parameters, |row| row.get(0)).optional()?;
        let Some(row) = row else {
            return Ok((compare(job, self.content(job)?.as_deref()), None));
        };
        self.tell(&Told {
            namespace: &job.namespace,
            kind: "job.updated",
            job: Some((&job.job_id, 1)),
            detail: Some("queued"),
            ..Told::default()
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
                ":lease_us": grant.lasts.map(micros),
                ":lease": lease,
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
                lease_id: Some(&grant.lease_id),
                ..Told::default()
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
    goes_on: bool,
}

impl<'w> Told<'w> {
    pub(super) fn of(agent: &'w AgentName, kind: &'w str, detail: Option<&'w str>) -> Self {
        let AgentName { namespace, name } = agent;
        Self { namespace, kind, agent: Some(name), detail, ..Self::default() }
    }
}
