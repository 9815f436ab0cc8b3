//! The past of a pool, from its log: which batches arrived, what they asked for, when they started and ended.
//!
//! A holder has its units from the grant on, so its run begins there, even if it claimed them later. A request that asked for
//! more or less on the way counts with the last size. A batch that has not ended, or never started, runs as long as its kind
//! usually does.

use super::score::{Score, score, usage_steps};
use super::{Batch, Night, PoolStart, Run, RunLength, Start, Workload, simulate};
use crate::pool::estimate::allowed_time;
use crate::pool::ledger::{Applied, Contradiction};
use crate::pool::run_times::RunTimes;
use crate::pool::usage::UsageStep;
use crate::pool::weight::shape_of;
use crate::pool::{Event, Holder, Ledger, Policy, Record, Settings, Ticket, TicketId};
use crate::time::Timestamp;
use std::collections::BTreeMap;
use std::num::NonZeroU32;

#[derive(Clone, Debug)]
pub struct Past {
    pub workload: Workload,
    /// What became of the batches.
    pub night: Night,
    /// Later records were not read.
    pub until: Timestamp,
    pub present: Settings,
}

/// Other settings to replay the past with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OtherSettings {
    /// How many units may be in use, at any time.
    pub limit: Option<u32>,
    pub policy: Option<Policy>,
    /// The least that a downgrade gives.
    pub min_units: Option<NonZeroU32>,
}

impl OtherSettings {
    pub fn apply(self, settings: &mut Settings) {
        if let Some(limit) = self.limit {
            (settings.max_units, settings.threshold_percent) = (limit, 100);
            settings.capacity.clear();
        }
        settings.policy = self.policy.unwrap_or(settings.policy);
        settings.min_units = self.min_units.unwrap_or(settings.min_units);
    }
}

/// A time as it was, or as it would have been.
#[derive(Clone, PartialEq, Debug)]
pub struct Course {
    pub score: Score,
    pub usage: Vec<UsageStep>,
}

impl Past {
    pub fn as_it_was(&self) -> Course {
        self.course(&self.workload, &self.night)
    }

    pub fn as_it_would_have_been(&self, other: OtherSettings) -> Result<Course, Contradiction> {
        let mut workload = self.workload.clone();
        workload.change(|settings| other.apply(settings));
        Ok(self.course(&workload, &simulate(&workload)?))
    }

    fn course(&self, workload: &Workload, night: &Night) -> Course {
        let since = workload.begins_at;
        let usage = usage_steps(workload, night, &self.present.name, since, self.until);
        Course { score: score(workload, night), usage }
    }
}

/// Follows a log, record by record.
#[derive(Clone, Debug)]
pub struct Log {
    ledger: Ledger,
    present: Settings,
    first: Option<Settings>,
    changes: Vec<(Timestamp, Settings)>,
    /// As they were last, with their end.
    tickets: BTreeMap<TicketId, (Ticket, Option<Timestamp>)>,
}

impl Log {
    pub fn new(present: Settings) -> Self {
        let (ledger, tickets) = (Ledger::new(present.clone(), 0), BTreeMap::new());
        Self { ledger, present, first: None, changes: Vec::new(), tickets }
    }

    /// Records that contradict the others are left out: the auditor is there to find them.
    pub fn see(&mut self, record: &Record) {
        match self.ledger.apply(record.at, &record.event) {
            Ok(Applied { ticket: Some(ticket), .. }) => {
                let ended_at = ticket.state.has_ended().then_some(record.at);
                self.tickets.insert(ticket.id, (ticket, ended_at));
            }
            Ok(_) => {
                for ticket in self.ledger.tickets() {
                    self.tickets.entry(ticket.id).or_insert_with(|| (ticket.clone(), None));
                }
            }
            Err(_) => {}
        }
        match &record.event {
            Event::Configured { settings, .. } if self.first.is_some() => {
                self.changes.push((record.at, (**settings).clone()));
            }
            _ => {
                self.first.get_or_insert_with(|| self.ledger.settings().clone());
            }
        }
    }

    /// What happened from `since` to `until`. Batches that arrived before and had not ended only fill the pool.
    pub fn past(self, run_times: &RunTimes, since: Timestamp, until: Timestamp) -> Past {
        let settings = self.first.unwrap_or_else(|| self.present.clone());
        let mut tickets: Vec<_> = self.tickets.into_values().collect();
        tickets.retain(|(_, ended_at)| ended_at.is_none_or(|ended_at| ended_at >= since));
        tickets.sort_by_key(|(ticket, _)| (ticket.enqueued_at, ticket.id));
        let (mut batches, mut runs) = (Vec::with_capacity(tickets.len()), Vec::with_capacity(tickets.len()));
        for (number, (ticket, ended_at)) in (1..).zip(&tickets) {
            let (batch, start) = batch(number, ticket, *ended_at, &settings, run_times, until);
            batches.push(batch);
            runs.push(Run { start, left_at: *ended_at, estimate: None });
        }
        let pool = PoolStart { settings, run_times: run_times.clone(), changes: self.changes };
        let workload = Workload { begins_at: since, pools: vec![pool], batches };
        Past { workload, night: Night { runs, violations: 0 }, until, present: self.present }
    }
}

fn batch(
    number: usize,
    ticket: &Ticket,
    ended_at: Option<Timestamp>,
    settings: &Settings,
    run_times: &RunTimes,
    until: Timestamp,
) -> (Batch, Option<Start>) {
    let &Ticket { asked, least, weight, .. } = ticket;
    let dag_id = ticket.holder.dag_id();
    let usual =
        |parallel, percent| run_times.expected((dag_id, &ticket.table, ticket.class), parallel, percent);
    let start = ticket.granted_at.zip(ticket.granted).map(|(at, parallel)| {
        let expected = at.plus(usual(parallel, 50)).max(until);
        Start { at, until: ended_at.unwrap_or(expected), parallel, units: weight.units(parallel) }
    });
    let (took, parallel) =
        start.map_or((usual(asked, 50), asked), |start| (start.until.since(start.at), start.parallel));
    let share = run_times.parallel_share(dag_id, &ticket.table);
    let batch = Batch {
        pool: settings.name.clone(),
        // A holder may have had several tickets.
        holder: Holder::run(dag_id, &number.to_string()).unwrap_or_else(|_| ticket.holder.clone()),
        table: ticket.table.clone(),
        class: ticket.class,
        arrives_at: ticket.enqueued_at,
        shape: shape_of(settings.weight, settings.hint_effective, settings.server_sets, asked, weight),
        asked,
        // The pool's own minimum is not the request's.
        least: Some(least).filter(|least| *least != settings.min_units.min(asked)),
        run: RunLength { seconds: took.as_secs_f64(), parallel, share },
        target: allowed_time(usual(asked, 80)),
    };
    (batch, start)
}
