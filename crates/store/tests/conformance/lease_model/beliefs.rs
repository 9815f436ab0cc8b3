//! What each run believes, by its own monotonic clock and from nothing but the answers that it got: the same
//! bookkeeping by which an engine fences itself.

use super::fault::{Fault, trusted_until};
use super::model::Answer;
use super::subject::Done;
use super::transition::{KEYS, Transition};
use crate::TTL;
use std::time::Duration;
use tidemill_domain::lease::Term;
use tidemill_domain::time::Monotonic;

/// A lease that a run believes to own.
#[derive(Clone, Copy, Debug)]
enum Claim {
    /// For as long as it trusts its process.
    Process,
    /// Until this instant, and no longer than it trusts its process.
    Until(Monotonic),
}

#[derive(Clone, Copy, Default, Debug)]
struct Mind {
    alive_until: Option<Monotonic>,
    claims: [Option<Claim>; KEYS],
}

impl Mind {
    fn believes(&self, key: usize, now: Monotonic) -> bool {
        let is_alive = self.alive_until.is_some_and(|until| now < until);
        is_alive
            && match self.claims[key] {
                None => false,
                Some(Claim::Process) => true,
                Some(Claim::Until(until)) => now < until,
            }
    }
}

/// The beliefs of all runs of one case. A crashed run keeps its own until they end by the clock, because it may
/// have been held up only.
pub(super) struct Beliefs {
    fault: Option<Fault>,
    minds: Vec<Mind>,
}

impl Beliefs {
    pub(super) fn new(fault: Option<Fault>) -> Self {
        Self { fault, minds: Vec::new() }
    }

    /// Which runs believe at `now` that they may act on lease `key`.
    pub(super) fn believers(&self, key: usize, now: Monotonic) -> Vec<usize> {
        (0..self.minds.len()).filter(|run| self.minds[*run].believes(key, now)).collect()
    }

    /// Takes in one answer.
    pub(super) fn learn(&mut self, transition: &Transition, done: &Done) {
        let trusted = |ttl: Duration| trusted_until(self.fault, done.sent, ttl);
        match (transition, &done.answer) {
            (Transition::Register { .. }, Answer::Registered) => {
                self.minds.push(Mind { alive_until: Some(trusted(TTL)), ..Mind::default() });
            }
            (Transition::Heartbeat { run, .. }, Answer::Heartbeat(Ok(()))) => {
                self.minds[*run].alive_until = Some(trusted(TTL));
            }
            // Refused, or about to end: it acts no more, whatever the answer.
            (Transition::Heartbeat { run, .. } | Transition::Stop { run }, _) => {
                self.minds[*run] = Mind::default()
            }
            (Transition::Release { run, key }, _) => self.minds[*run].claims[*key] = None,
            (Transition::Acquire { run, key, term, .. }, Answer::Acquired(Ok(_))) => {
                self.minds[*run].claims[*key] = Some(match term {
                    Term::Process => Claim::Process,
                    Term::For(ttl) => Claim::Until(trusted(*ttl)),
                });
            }
            (Transition::Renew { run, ttl, .. }, Answer::Renewed(renewed)) => {
                let trusted = trusted(*ttl);
                for (key, claim) in self.minds[*run].claims.iter_mut().enumerate() {
                    let Some(Claim::Until(_)) = *claim else { continue };
                    // The last renewal counts, also a shorter one; and whoever is not renewed has lost its lease.
                    *claim = renewed.contains(&key).then_some(Claim::Until(trusted));
                }
            }
            _ => {}
        }
    }
}
