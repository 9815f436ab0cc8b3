//! Where the next instance of a job continues that reads an endless source, such as a topic: after the previous instance.
//!
//! Nothing may be read twice or left out, so it waits for an instance that can still be restarted.

use super::BatchStatus;

/// The last known run of a step in another instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PreviousRun {
    pub step: BatchStatus,
    pub job: BatchStatus,
    pub has_position: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Continuation {
    /// Continue after its position.
    Behind,
    /// It has read nothing: look at the run before it.
    Earlier,
    /// It runs or can be restarted: wait until it has ended for good.
    Wait,
}

pub const fn continuation(run: PreviousRun) -> Continuation {
    let is_final = matches!(run.job, BatchStatus::Abandoned)
        || matches!(run.step, BatchStatus::Completed | BatchStatus::Abandoned);
    match (is_final, run.has_position) {
        (true, true) => Continuation::Behind,
        (true, false) => Continuation::Earlier,
        (false, true) => Continuation::Wait,
        // A running step may commit its first position at any moment.
        (false, false) if run.step.is_running() && run.job.is_running() => Continuation::Wait,
        (false, false) => Continuation::Earlier,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn status() -> impl Strategy<Value = BatchStatus> {
        prop::sample::select(BatchStatus::ALL.to_vec())
    }

    #[test]
    fn the_next_instance_goes_on_behind_one_that_completed_or_was_given_up() {
        let run = |step, job| continuation(PreviousRun { step, job, has_position: true });

        assert_eq!(run(BatchStatus::Completed, BatchStatus::Completed), Continuation::Behind);
        // A later step has failed: a restart does not run this one again.
        assert_eq!(run(BatchStatus::Completed, BatchStatus::Failed), Continuation::Behind);
        assert_eq!(run(BatchStatus::Failed, BatchStatus::Abandoned), Continuation::Behind);
        assert_eq!(run(BatchStatus::Failed, BatchStatus::Failed), Continuation::Wait);
        assert_eq!(run(BatchStatus::Stopped, BatchStatus::Stopped), Continuation::Wait);
    }

    proptest! {
        #[test]
        fn nobody_goes_on_behind_what_can_still_move(
            step in status(), job in status(), has_position in any::<bool>(),
        ) {
            let found = continuation(PreviousRun { step, job, has_position });

            if found == Continuation::Behind {
                prop_assert!(has_position);
                prop_assert!(!step.is_running() || job == BatchStatus::Abandoned);
            }
            if step.is_running() && job.is_running() {
                prop_assert_eq!(found, Continuation::Wait);
            }
            if !has_position {
                prop_assert!(found != Continuation::Behind);
            }
        }
    }
}
