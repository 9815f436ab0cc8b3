//! The oracles. They see what was asked and answered, and judge by their own books: none of them knows the
//! rules of the domain, so a wrong rule is found as well as a wrong statement.

use super::beliefs::Beliefs;
use super::fault::Fault;
use super::model::{Answer, id_of};
use super::subject::Done;
use super::transition::{KEYS, Transition};
use std::fmt;
use tidemill_domain::lease::Fence;

/// One promise that has to hold after every step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Oracle {
    /// At no instant do two processes believe that they may act on one lease.
    OneBeliever,
    /// Work is settled only by whom the lease was given to last, and who has not given it back or lost it.
    LastOwnerSettles,
    /// The epochs of settled work never shrink.
    SettledEpochsNeverShrink,
    /// Each owner has the epoch after the one before.
    EpochsGrowByOne,
    /// The store answers what the model answers.
    AnswersAsTheModel,
}

impl Oracle {
    pub(super) const ALL: [Self; 5] = [
        Self::OneBeliever,
        Self::LastOwnerSettles,
        Self::SettledEpochsNeverShrink,
        Self::EpochsGrowByOne,
        Self::AnswersAsTheModel,
    ];
}

/// A promise that was broken, and how.
#[derive(Debug)]
pub(super) struct Broken {
    oracle: Oracle,
    how: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.oracle, self.how)
    }
}

/// What the answers so far say about one lease.
#[derive(Clone, Copy, Default, Debug)]
struct Book {
    /// To whom it was given last, unless it was given back or freed since.
    owner: Option<Fence>,
    given_epoch: i64,
    settled_epoch: i64,
}

/// The oracles of one case, with their books.
pub(super) struct Watch<'a> {
    oracles: &'a [Oracle],
    beliefs: Beliefs,
    books: [Book; KEYS],
}

impl<'a> Watch<'a> {
    /// Only the named oracles speak: so each can be shown to notice a fault by itself.
    pub(super) fn new(oracles: &'a [Oracle], fault: Option<Fault>) -> Self {
        Self { oracles, beliefs: Beliefs::new(fault), books: [Book::default(); KEYS] }
    }

    /// Judges one step, to which the model would have answered `expected`.
    pub(super) fn judge(
        &mut self,
        transition: &Transition,
        done: &Done,
        expected: &Answer,
    ) -> Result<(), Broken> {
        self.check(Oracle::AnswersAsTheModel, done.answer == *expected, || {
            format!("the answer to {transition:?} was {:?} instead of {expected:?}", done.answer)
        })?;
        match (transition, &done.answer) {
            (Transition::Acquire { key, .. }, Answer::Acquired(Ok(granted))) => {
                self.given(*key, granted.fence)?;
            }
            (Transition::Settle { key, .. }, Answer::Settled(true)) => self.settled(*key, done.carried)?,
            (Transition::Release { key, .. }, Answer::Released(true)) => self.books[*key].owner = None,
            (Transition::Stop { run }, Answer::Stopped(Ok(()))) => {
                for book in &mut self.books {
                    book.owner = book.owner.filter(|fence| fence.owner != id_of(*run));
                }
            }
            (Transition::ExpireLeases, Answer::Lapsed(lapsed)) => {
                for (key, _) in lapsed {
                    self.books[*key].owner = None;
                }
            }
            _ => {}
        }
        self.beliefs.learn(transition, done);
        for key in 0..KEYS {
            let believers = self.beliefs.believers(key, done.heard);
            self.check(Oracle::OneBeliever, believers.len() < 2, || {
                format!("after {transition:?}, the runs {believers:?} all believe that they own lease {key}")
            })?;
        }
        Ok(())
    }

    fn given(&mut self, key: usize, fence: Fence) -> Result<(), Broken> {
        let before = self.books[key].given_epoch;
        self.check(Oracle::EpochsGrowByOne, fence.epoch.get() == before + 1, || {
            format!("lease {key} went from epoch {before} to epoch {}", fence.epoch)
        })?;
        self.books[key].owner = Some(fence);
        self.books[key].given_epoch = fence.epoch.get();
        Ok(())
    }

    fn settled(&mut self, key: usize, carried: Option<Fence>) -> Result<(), Broken> {
        let book = self.books[key];
        self.check(Oracle::LastOwnerSettles, carried.is_some() && carried == book.owner, || {
            format!("lease {key} belongs to {:?}, but {carried:?} settled its work", book.owner)
        })?;
        let epoch = carried.map_or(0, |fence| fence.epoch.get());
        self.check(Oracle::SettledEpochsNeverShrink, epoch >= book.settled_epoch, || {
            format!(
                "work of lease {key} was settled in epoch {} and then in epoch {epoch}",
                book.settled_epoch
            )
        })?;
        self.books[key].settled_epoch = epoch;
        Ok(())
    }

    fn check(&self, oracle: Oracle, holds: bool, how: impl FnOnce() -> String) -> Result<(), Broken> {
        if holds || !self.oracles.contains(&oracle) {
            return Ok(());
        }
        Err(Broken { oracle, how: how() })
    }
}
