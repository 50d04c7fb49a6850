//! Jobs that are taken back, and agents that fall silent.

use rusqlite::{OptionalExtension, Row, named_params};

use super::{
    all, micros, rows, write,
    written::{Told, Writing},
};
use crate::{
    queue::Queued,
    round::{AgentName, Reaped, Reaping, Recall, Recalled, RunOut, Standing},
    store::{Patience, StoreError},
};

/// A job that is to be taken back.
struct Chosen {
    row: i64,
    agent: Option<String>,
    reason: String,
    /// Whether that counts as a lease that was lost.
    counts: bool,
    /// Whether it is over with it.
    is_over: bool,
}

fn chosen(row: &Row<'_>) -> rusqlite::Result<Chosen> {
    Ok(Chosen {
        row: row.get("row_number")?,
        agent: row.get("leased_by")?,
        reason: row.get("reason")?,
        counts: row.get("counts")?,
        is_over: row.get("is_over")?,
    })
}

impl Writing<'_> {
    pub(super) fn recall(
        &mut self,
        recall: &Recall,
    ) -> Result<(Recalled, Option<Queued>), StoreError> {
        let which = named_params! {
            ":namespace": recall.namespace,
            ":job_id": recall.job_id,
            ":job_epoch": recall.job_epoch,
            ":lease_id": recall.lease_id,
        };
        let mut statement = self.transaction.prepare_cached(write!("take_back/job"))?;
        let found = statement.query_row(which, |row| {
            let standing = Standing {
                job_epoch: row.get("job_epoch")?,
                is_leased: row.get("is_leased")?,
                is_other_epoch: row.get("is_other_epoch")?,
                is_other_lease: row.get("is_other_lease")?,
            };
            let chosen = Chosen {
                row: row.get("row_number")?,
                agent: row.get("leased_by")?,
                reason: recall.reason.clone(),
                counts: false,
                is_over: false,
            };
            Ok((standing.recalled(), chosen))
        });
        let found = found.optional()?;
        drop(statement);
        Ok(match found {
            None => (Recalled::NotFound, None),
            Some((back @ Recalled::Back { .. }, chosen)) => (back, self.take_back(chosen)?),
            Some((recalled, _)) => (recalled, None),
        })
    }

    pub(super) fn reap(
        &mut self,
        reaping: &Reaping,
        patience: &Patience,
        most: usize,
    ) -> Result<(Vec<Queued>, Reaped), StoreError> {
        let (mut queued, mut reaped) = (Vec::new(), Reaped::default());
        for lease_id in &reaping.strays {
            let lease = named_params! { ":lease_id": lease_id };
            queued.extend(self.take_back_all(write!("take_back/lease"), lease)?.0);
        }
        if let Some(agent) = &reaping.emptied {
            let which = named_params! {
                ":namespace": agent.namespace,
                ":name": agent.name,
                ":reason": agent.reason,
                ":most": limit(most),
            };
            let (back, count) = self.take_back_all(write!("take_back/agent"), which)?;
            queued.extend(back);
            reaped.emptied = count;
        }
        if let Some(run_out) = reaping.run_out {
            let (back, count) = self.reap_what_ran_out(run_out, patience, most)?;
            queued.extend(back);
            reaped.run_out = count;
        }
        Ok((queued, reaped))
    }

    fn reap_what_ran_out(
        &mut self,
        what: RunOut,
        patience: &Patience,
        most: usize,
    ) -> Result<(Vec<Queued>, usize), StoreError> {
        let (now, epoch) = (self.now, self.epoch());
        let which = named_params! {
            ":now": now, ":most": limit(most), ":spares": what.spares, ":leader_epoch": epoch,
        };
        let (mut queued, expired) = self.take_back_all(write!("take_back/expired"), which)?;
        let which = named_params! { ":now": now, ":most": limit(most) };
        let (back, overdue) = self.take_back_all(write!("take_back/overdue"), which)?;
        queued.extend(back);
        let mut largest = expired.max(overdue);
        let woken = self.wake(most)?;
        largest = largest.max(woken.len());
        queued.extend(woken);
        if what.agents {
            largest = largest.max(self.age_agents(patience, most)?);
        }
        let up_to = self.event_number - patience.events_kept;
        self.run(write!("prune"), named_params! { ":up_to": up_to, ":most": limit(most) })?;
        Ok((queued, largest))
    }

    /// Those that can be leased again, and how many there were in all.
    fn take_back_all(
        &mut self,
        sql: &str,
        parameters: &[(&str, &dyn rusqlite::ToSql)],
    ) -> Result<(Vec<Queued>, usize), StoreError> {
        let chosen = all(self.transaction, sql, parameters, chosen)?;
        let (count, mut queued) = (chosen.len(), Vec::new());
        for one in chosen {
            queued.extend(self.take_back(one)?);
        }
        Ok((queued, count))
    }

    /// The job, if it can be leased again.
    fn take_back(&mut self, chosen: Chosen) -> Result<Option<Queued>, StoreError> {
        let Chosen { row, agent, reason, counts, is_over } = chosen;
        let mut statement = self.transaction.prepare_cached(write!("take_back"))?;
        let which = named_params! {
            ":row_number": row,
            ":counts": counts,
            ":is_over": is_over,
            ":leader_epoch": self.epoch(),
            ":now": self.now,
        };
        let taken = statement.query_row(which, |row| {
            let name: String = row.get("job_id")?;
            let lease_id: Option<String> = row.get("lease_id")?;
            Ok((rows::queued(row)?, name, lease_id, row.get::<_, i64>("lost_leases")?))
        });
        let Some((queued, job_id, lease_id, lost)) = taken.optional()? else { return Ok(None) };
        drop(statement);
        let told = Told {
            namespace: &queued.namespace,
            kind: "job.expired",
            job: Some((&job_id, queued.job_epoch)),
            agent: agent.as_deref(),
            detail: Some(&reason),
            lease_id: None,
        };
        self.tell(&told)?;
        if !is_over {
            return Ok(Some(queued));
        }
        let error = match counts {
            true => format!("{reason}, for the {lost}. time"),
            false => reason.clone(),
        };
        self.run(
            write!("fail"),
            named_params! {
                ":row_number": row,
                ":job_epoch": queued.job_epoch,
                ":lease_id": lease_id,
                ":error": error,
                ":leader_epoch": self.epoch(),
                ":now": self.now,
            },
        )?;
        self.tell(&Told { kind: "job.completed", detail: Some("failed"), ..told })?;
        Ok(None)
    }

    /// Jobs that have waited long enough for their next run.
    fn wake(&mut self, most: usize) -> Result<Vec<Queued>, StoreError> {
        let which = named_params! {
            ":now": self.now, ":most": limit(most), ":leader_epoch": self.epoch(),
        };
        let woken = all(self.transaction, write!("wake"), which, |row| {
            Ok::<_, rusqlite::Error>((rows::queued(row)?, row.get::<_, String>("job_id")?))
        })?;
        for (queued, job_id) in &woken {
            self.tell(&Told {
                namespace: &queued.namespace,
                kind: "job.updated",
                job: Some((job_id, queued.job_epoch)),
                detail: Some("queued"),
                ..Told::default()
            })?;
        }
        Ok(woken.into_iter().map(|(queued, _)| queued).collect())
    }

    /// Whether it was something else before.
    pub(super) fn age(&self, agent: &AgentName, state: &str) -> Result<bool, StoreError> {
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

    fn age_agents(&mut self, patience: &Patience, most: usize) -> Result<usize, StoreError> {
        let before = |silence| self.now - micros(silence);
        let silent = named_params! {
            ":stale": before(patience.stale_after),
            ":tombstoned": before(patience.tombstone_after),
            ":deleted": before(patience.forget_after),
            ":most": limit(most),
        };
        let aging = all(self.transaction, write!("silent"), silent, |row| {
            let agent = AgentName { namespace: row.get("namespace")?, name: row.get("name")? };
            Ok::<_, rusqlite::Error>((agent, row.get::<_, String>("aging")?))
        })?;
        for (agent, state) in &aging {
            let kind = match state.as_str() {
                "stale" => "agent.stale",
                "tombstoned" => "agent_tombstoned",
                _ => "agent_deleted",
            };
            if state == "deleted" {
                let name = named_params! { ":namespace": agent.namespace, ":name": agent.name };
                self.run(write!("forget"), name)?;
            } else {
                self.age(agent, state)?;
            }
            self.tell(&Told::of(agent, kind, None))?;
        }
        Ok(aging.len())
    }
}

fn limit(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}
