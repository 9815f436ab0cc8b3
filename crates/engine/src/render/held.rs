//! The renders that this worker holds: until when it may act on each, and instructions to its task.

use crate::{LeaseGuard, locked};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tidemill_domain::lease::Fence;
use tidemill_domain::render::{Act, Phase, RenderId};
use tokio::sync::watch;

/// An instruction to the task of a render. A later variant overrides an earlier one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Instruction {
    Nothing,
    /// Give the render back, unless it is about to be published.
    Stop,
    /// Give it back in any case.
    StopNow,
    /// Cancelled: stop the current work and do this.
    Do(Act),
    /// Another worker has it: leave everything as it is.
    Lost,
}

impl Instruction {
    const fn rank(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Stop => 1,
            Self::StopNow => 2,
            Self::Do(_) => 3,
            Self::Lost => 4,
        }
    }
}

#[derive(Debug)]
pub(super) struct HeldRender {
    pub(super) id: RenderId,
    pub(super) fence: Fence,
    pub(super) guard: LeaseGuard,
    phase: Mutex<Phase>,
    instruction: watch::Sender<Instruction>,
}

impl HeldRender {
    pub(super) fn new(id: RenderId, fence: Fence, phase: Phase, guard: LeaseGuard) -> Self {
        Self {
            id,
            fence,
            guard,
            phase: Mutex::new(phase),
            instruction: watch::Sender::new(Instruction::Nothing),
        }
    }

    /// Instructs its task, unless a stronger instruction was given before.
    pub(super) fn tell(&self, told: Instruction) {
        self.instruction.send_if_modified(|current| {
            let is_more = told.rank() > current.rank();
            if is_more {
                *current = told;
            }
            is_more
        });
    }

    /// Waits for an instruction of at least this strength, or for the end of the lease.
    pub(super) async fn instructed(&self, at_least: Instruction) -> Instruction {
        let mut told = self.instruction.subscribe();
        let is_urgent = |told: &Instruction| told.rank() >= at_least.rank().max(1);
        tokio::select! {
            biased;
            told = told.wait_for(is_urgent) => told.map_or(Instruction::Lost, |told| *told),
            () = self.guard.over() => Instruction::Lost,
        }
    }

    /// Whether this worker may still act on it, by its own clock.
    pub(super) fn is_trusted(&self) -> bool {
        self.guard.may_act() && *self.instruction.borrow() != Instruction::Lost
    }

    pub(super) fn is_at(&self, phase: Phase) {
        *locked(&self.phase) = phase;
    }

    pub(super) fn phase(&self) -> Phase {
        *locked(&self.phase)
    }
}

#[derive(Debug, Default)]
pub(super) struct Registry {
    held: Mutex<BTreeMap<RenderId, Arc<HeldRender>>>,
}

impl Registry {
    pub(super) fn add(&self, held: Arc<HeldRender>) {
        // An earlier claim of this render has an older epoch, so it is lost.
        if let Some(before) = locked(&self.held).insert(held.id, held) {
            before.tell(Instruction::Lost);
        }
    }

    /// Removes it, unless it was claimed again.
    pub(super) fn remove(&self, held: &HeldRender) {
        let mut all = locked(&self.held);
        if all.get(&held.id).is_some_and(|known| known.fence == held.fence) {
            all.remove(&held.id);
        }
    }

    pub(super) fn all(&self) -> Vec<Arc<HeldRender>> {
        locked(&self.held).values().cloned().collect()
    }

    pub(super) fn len(&self) -> usize {
        locked(&self.held).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tidemill_domain::lease::Epoch;
    use tidemill_domain::process::ProcessId;
    use tidemill_domain::time::{Clock, FakeClock, Timestamp};

    const LEASE: Duration = Duration::from_secs(60);

    fn clock() -> Arc<FakeClock> {
        Arc::new(FakeClock::at(Timestamp::EPOCH))
    }

    fn held(epoch: i64, clock: &Arc<FakeClock>) -> Arc<HeldRender> {
        let owner = ProcessId::new(uuid::Uuid::from_u128(1));
        let fence = Fence { owner, epoch: Epoch::new(epoch) };
        let guard = LeaseGuard::new(clock.clone(), LEASE, clock.monotonic());
        Arc::new(HeldRender::new(RenderId::new(7), fence, Phase::Claimed, guard))
    }

    #[tokio::test]
    async fn a_stop_does_not_take_back_that_the_render_is_lost() {
        let clock = clock();
        let held = held(1, &clock);

        held.tell(Instruction::Lost);
        held.tell(Instruction::Stop);

        assert_eq!(held.instructed(Instruction::Stop).await, Instruction::Lost);
    }

    #[tokio::test]
    async fn who_could_not_renew_in_time_stops_by_its_own_clock() {
        let clock = clock();
        let held = held(1, &clock);
        clock.advance(LEASE / 2);
        assert!(held.is_trusted());

        clock.advance(LEASE / 2);

        assert!(!held.is_trusted());
        assert_eq!(held.instructed(Instruction::Stop).await, Instruction::Lost);
        held.guard.renew(clock.monotonic());
        assert!(held.is_trusted());
    }

    #[test]
    fn a_render_that_came_back_makes_a_ghost_of_what_was_held_before() {
        let clock = clock();
        let (old, new) = (held(1, &clock), held(2, &clock));
        let registry = Registry::default();

        registry.add(old.clone());
        registry.add(new.clone());
        registry.remove(&old);

        assert!(!old.is_trusted() && new.is_trusted());
        assert_eq!(registry.len(), 1);
    }
}
