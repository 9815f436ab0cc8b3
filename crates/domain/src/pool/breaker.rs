//! The circuit breaker of a pool: stops grants when the database refuses connections, and raises the limit slowly after
//! that. Only refusals change it, never the duration of runs.
//!
//! ```text
//!   Closed ──refusal──► Open ──pause is over──► Probing ──probe works──► Ramping ──limit reached──► Closed
//!                        ▲                         │                       │
//!                        └─────────refusal─────────┴───────────────────────┘
//! ```
//!
//! A refusal lowers the limit to half of the units in use. While ramping, the limit follows from the time alone. An
//! operator can open and close it at any time; a breaker that was opened by hand stays open.

use super::command::Level;
use super::decide::{Claimant, Policy};
use super::{End, State, Ticket, TicketId};
use crate::duration;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::time::Duration;

/// The pause after a refusal. Doubled, up to the maximum, each time a probe is refused.
const PAUSE: Duration = Duration::from_secs(30);
const PAUSE_MAX: Duration = Duration::from_secs(600);

/// A probe that holds its units for this long without a refusal has worked.
const PROBE_FOR: Duration = Duration::from_secs(60);

/// While ramping, the limit rises by a twentieth of the pool's limit in each step.
const STEP: Duration = Duration::from_secs(30);
const STEPS: u64 = 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Closed,
    /// Nothing starts until then; none: until somebody closes it.
    Open {
        until: Option<Timestamp>,
    },
    /// Only this ticket may start; none: the next of the queue becomes the probe.
    Probing {
        ticket: Option<TicketId>,
    },
    Ramping,
}

crate::newtype::named!(Phase, as_str {
    Closed = "closed", Open = "open", Probing = "probing", Ramping = "ramping",
});

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Breaker {
    pub phase: Phase,
    /// When the phase began.
    pub since: Timestamp,
    /// What the database answered, or why an operator changed it.
    pub reason: String,
    /// The operator; none if a refusal or the time changed it.
    pub by: Option<String>,
    /// The limit while it is not closed. The ramp begins here.
    pub units: u64,
    #[serde(with = "duration::text")]
    pub pause: Duration,
}

/// A change that does not follow from the time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BreakerChange {
    /// The database refused a connection.
    Refused {
        reason: String,
    },
    Open {
        by: String,
        reason: String,
    },
    Close {
        by: String,
        reason: String,
    },
}

/// What is known of the probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probe {
    Pending,
    Worked,
    /// It ended or went silent before it could show anything.
    Lost,
}

impl Default for Breaker {
    fn default() -> Self {
        let (reason, pause) = (String::new(), Duration::ZERO);
        Self { phase: Phase::Closed, since: Timestamp::EPOCH, reason, by: None, units: 0, pause }
    }
}

impl Breaker {
    /// Whether at most a probe may start.
    pub const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open { .. } | Phase::Probing { .. })
    }

    /// The limit now, of a pool with this limit. Never more than that, and never 0 unless that is.
    pub fn limit(&self, limit: u64, now: Timestamp) -> u64 {
        let units = match self.phase {
            Phase::Closed => limit,
            Phase::Open { .. } | Phase::Probing { .. } => self.units,
            Phase::Ramping => {
                let steps = now.since(self.since).as_secs() / STEP.as_secs();
                self.units.saturating_add(steps.saturating_mul(limit.div_ceil(STEPS)))
            }
        };
        units.max(1).min(limit)
    }

    /// How long nothing starts; none if that is unknown.
    pub fn wait(&self, now: Timestamp) -> Option<Duration> {
        match self.phase {
            Phase::Open { until } => until.map(|until| until.since(now)),
            Phase::Closed | Phase::Probing { .. } | Phase::Ramping => Some(Duration::ZERO),
        }
    }

    /// Whether nothing can start now, not even a probe.
    pub const fn stops_all(&self) -> bool {
        matches!(self.phase, Phase::Open { .. } | Phase::Probing { ticket: Some(_) })
    }

    /// The part of the queue that may start: everything, nothing, or the first request that can start, in its smallest size.
    pub fn admits<'q>(
        &self,
        queue: &'q [Claimant],
        can_start: impl Fn(&Claimant) -> bool,
        policy: Policy,
    ) -> Cow<'q, [Claimant]> {
        match self.phase {
            Phase::Closed | Phase::Ramping => Cow::Borrowed(queue),
            Phase::Probing { ticket: None } => {
                let first = queue.iter().find(|claimant| can_start(claimant)).copied();
                let smallest =
                    |first: Claimant| Claimant { asked: policy.least(first.asked, first.least), ..first };
                first.map(smallest).into_iter().collect()
            }
            Phase::Probing { ticket: Some(_) } | Phase::Open { .. } => Cow::Borrowed(&[]),
        }
    }

    /// With this ticket as the probe; none if it does not look for one.
    pub fn with_probe(&self, ticket: TicketId, now: Timestamp) -> Option<Self> {
        let is_wanted = self.phase == Phase::Probing { ticket: None };
        is_wanted.then(|| self.to(Phase::Probing { ticket: Some(ticket) }, now))
    }

    /// After a change in a pool with this level; none if it changes nothing. Refusals while it is open count once.
    pub fn changed(&self, change: &BreakerChange, level: Level, now: Timestamp) -> Option<Self> {
        let (phase, reason, by, units, pause) = match (change, self.phase) {
            (BreakerChange::Close { .. }, Phase::Closed) => return None,
            (BreakerChange::Close { by, reason }, _) => (Phase::Closed, reason, Some(by), 0, Duration::ZERO),
            (BreakerChange::Open { by, reason }, _) => {
                (Phase::Open { until: None }, reason, Some(by), level.limit, Duration::ZERO)
            }
            (BreakerChange::Refused { .. }, Phase::Open { until })
                if until.is_none_or(|until| now < until) =>
            {
                return None;
            }
            (BreakerChange::Refused { reason }, phase) => {
                let is_first = matches!(phase, Phase::Closed | Phase::Ramping);
                let pause =
                    if is_first { PAUSE } else { self.pause.saturating_mul(2).clamp(PAUSE, PAUSE_MAX) };
                let units = if is_first { (level.usage.min(level.limit) / 2).max(1) } else { self.units };
                (Phase::Open { until: Some(now.plus(pause)) }, reason, None, units, pause)
            }
        };
        Some(Self { phase, since: now, reason: reason.clone(), by: by.cloned(), units, pause })
    }

    /// What follows from the time and the probe, in a pool with this limit; none if nothing does.
    pub fn advanced(&self, limit: u64, probe: Probe, now: Timestamp) -> Option<Self> {
        match self.phase {
            Phase::Closed => None,
            // The clock has gone back: the phase begins again.
            Phase::Open { until: Some(_) } if now < self.since => {
                Some(self.to(Phase::Open { until: Some(now.plus(self.pause)) }, now))
            }
            phase if now < self.since => Some(self.to(phase, now)),
            Phase::Open { until } => {
                let is_over = until.is_some_and(|until| until <= now);
                is_over.then(|| self.to(Phase::Probing { ticket: None }, now))
            }
            Phase::Probing { ticket: None } => None,
            Phase::Probing { ticket: Some(_) } => match probe {
                Probe::Pending => None,
                Probe::Worked => Some(self.to(Phase::Ramping, now)),
                Probe::Lost => Some(self.to(Phase::Probing { ticket: None }, now)),
            },
            Phase::Ramping if self.limit(limit, now) < limit => None,
            Phase::Ramping => Some(Self { since: now, ..Self::default() }),
        }
    }

    /// As people see it, also if no pass has recorded yet what follows from the time.
    pub fn seen(&self, limit: u64, now: Timestamp) -> Self {
        self.advanced(limit, Probe::Pending, now).unwrap_or_else(|| self.clone())
    }

    fn to(&self, phase: Phase, now: Timestamp) -> Self {
        Self { phase, since: now, ..self.clone() }
    }
}

impl Probe {
    /// Of the ticket that became the probe at `since`; `end` if it has ended.
    pub fn of(ticket: Option<&Ticket>, end: Option<&End>, since: Timestamp, now: Timestamp) -> Self {
        match (ticket, end) {
            (Some(ticket), Some(End::Released { .. })) if ticket.claimed_at.is_some() => Self::Worked,
            (Some(ticket), None) if ticket.state == State::Running => {
                // A holder that waits for more claimed its first units earlier; one that was away claims later.
                let began_at = ticket.claimed_at.filter(|at| *at <= now).unwrap_or(since).max(since);
                if now.since(began_at) >= PROBE_FOR { Self::Worked } else { Self::Pending }
            }
            (Some(ticket), None) if ticket.state == State::Granted => Self::Pending,
            _ => Self::Lost,
        }
    }
}

#[cfg(test)]
mod tests;
