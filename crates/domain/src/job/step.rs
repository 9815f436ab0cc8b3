//! Whether a step runs when its job reaches it, and from where.
//!
//! Only the step's last execution in the instance counts. If it is of this job execution, the step runs afresh.

use super::{BatchStatus, Counters, ExecutionContext};

/// Context key: whether the step has run. A restart does not copy it.
pub const EXECUTED_KEY: &str = "batch.executed";
/// Context key: whether this run continues an earlier one.
pub const RESTART_KEY: &str = "batch.restart";
/// Context key: the type of the step.
pub const STEP_TYPE_KEY: &str = "batch.stepType";
/// Context key: the version of the program.
pub const VERSION_KEY: &str = "batch.version";

/// Context key: the number of items after the saved position that a scan has settled. The name is Spring Batch's.
pub const OFFSET_KEY: &str = "org.springframework.batch.core.step.item.ChunkMonitor.OFFSET";

/// Context key: what the runs that this one continues have counted, in the order of [`counted_before`].
pub const COUNTED_KEY: &str = "tidemill.counted";

/// Adds the counters of the run whose context this was to those of the runs before it.
pub fn carry_counters(context: &mut ExecutionContext, last: Counters) {
    let mut all = counted_before(context);
    all += last;
    let all = [all.read, all.write, all.filter, all.skips()];
    if all != [0; 4] {
        context.put(COUNTED_KEY, all.to_vec());
    }
}

/// What the runs have counted that a step with this context continues: read, written, filtered and skipped items.
pub fn counted_before(context: &ExecutionContext) -> Counters {
    let [read, write, filter, read_skip] = [0, 1, 2, 3]
        .map(|index| context.get(COUNTED_KEY).and_then(|all| all.get(index)?.as_u64()).unwrap_or(0));
    Counters { read, write, filter, read_skip, ..Counters::default() }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastStep {
    pub status: BatchStatus,
    /// Whether it belongs to the current job execution.
    pub is_of_this_execution: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepRules {
    pub allow_start_if_complete: bool,
    pub start_limit: u32,
}

impl Default for StepRules {
    fn default() -> Self {
        Self { allow_start_if_complete: false, start_limit: u32::MAX }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepDecision {
    /// With an empty context.
    RunFresh,
    /// With a copy of its last context, without [`EXECUTED_KEY`].
    Resume,
    /// It is done: continue with its earlier result. Nothing is written.
    SkipCompleted,
    /// An operator gave it up: continue with its earlier result. Nothing is written.
    SkipAbandoned,
}

/// The job fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepRefusal {
    #[error("the outcome of the step's last execution is unknown")]
    OutcomeUnknown,
    #[error("the step has been started {limit} times in this instance, and may not be started more often")]
    StartLimitReached { limit: u32 },
}

crate::code::coded!(StepRefusal {
    OutcomeUnknown => JobOutcomeUnknown,
        "check what the step has written, then recover the execution to continue, or abandon it";
    StartLimitReached => StepStartLimitReached,
        "fix what makes the step fail, then raise its start limit, or launch with other parameters";
});

/// Decides on a step with this last execution and number of starts in the instance. Total.
pub fn decide(last: Option<LastStep>, starts: u64, rules: StepRules) -> Result<StepDecision, StepRefusal> {
    let earlier = last.filter(|last| !last.is_of_this_execution).map(|last| last.status);
    let run = match earlier {
        Some(BatchStatus::Unknown) => return Err(StepRefusal::OutcomeUnknown),
        Some(BatchStatus::Completed) if !rules.allow_start_if_complete => {
            return Ok(StepDecision::SkipCompleted);
        }
        Some(BatchStatus::Abandoned) => return Ok(StepDecision::SkipAbandoned),
        None | Some(BatchStatus::Completed) => StepDecision::RunFresh,
        Some(
            BatchStatus::Starting
            | BatchStatus::Started
            | BatchStatus::Stopping
            | BatchStatus::Stopped
            | BatchStatus::Failed,
        ) => StepDecision::Resume,
    };
    if starts >= u64::from(rules.start_limit) {
        return Err(StepRefusal::StartLimitReached { limit: rules.start_limit });
    }
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::BatchStatus::{
        Abandoned, Completed, Failed, Started, Starting, Stopped, Stopping, Unknown,
    };
    use proptest::prelude::*;

    fn after(status: BatchStatus, allow_start_if_complete: bool) -> Result<StepDecision, StepRefusal> {
        let last = LastStep { status, is_of_this_execution: false };
        decide(Some(last), 1, StepRules { allow_start_if_complete, ..StepRules::default() })
    }

    fn last() -> impl Strategy<Value = Option<LastStep>> {
        let last = (0..BatchStatus::ALL.len(), any::<bool>()).prop_map(|(index, is_of_this_execution)| {
            LastStep { status: BatchStatus::ALL[index], is_of_this_execution }
        });
        proptest::option::of(last)
    }

    #[test]
    fn the_counters_of_all_runs_that_a_step_continues_are_added() {
        let mut context = ExecutionContext::new();
        carry_counters(&mut context, Counters::default());
        assert!(context.is_empty());
        let run =
            Counters { read: 9, write: 5, filter: 2, write_skip: 1, process_skip: 1, ..Counters::default() };

        carry_counters(&mut context, run);
        carry_counters(&mut context, run);

        let before = counted_before(&context);
        assert_eq!((before.read, before.write, before.filter, before.skips()), (18, 10, 4, 4));
        assert_eq!(counted_before(&ExecutionContext::new()), Counters::default());
    }

    #[test]
    fn the_last_execution_of_the_step_decides() {
        for (status, decision) in [
            (Completed, Ok(StepDecision::SkipCompleted)),
            (Starting, Ok(StepDecision::Resume)),
            (Started, Ok(StepDecision::Resume)),
            (Stopping, Ok(StepDecision::Resume)),
            (Stopped, Ok(StepDecision::Resume)),
            (Failed, Ok(StepDecision::Resume)),
            (Abandoned, Ok(StepDecision::SkipAbandoned)),
            (Unknown, Err(StepRefusal::OutcomeUnknown)),
        ] {
            assert_eq!(after(status, false), decision, "{status}");
        }
    }

    #[test]
    fn a_completed_step_that_may_start_again_starts_afresh_and_an_abandoned_one_never_starts() {
        assert_eq!(after(Completed, true), Ok(StepDecision::RunFresh));
        assert_eq!(after(Abandoned, true), Ok(StepDecision::SkipAbandoned));
        assert_eq!(after(Unknown, true), Err(StepRefusal::OutcomeUnknown));
    }

    #[test]
    fn a_step_that_is_passed_over_needs_no_start() {
        let rules = StepRules { start_limit: 1, ..StepRules::default() };
        let last = |status| Some(LastStep { status, is_of_this_execution: false });

        assert_eq!(decide(last(Completed), 1, rules), Ok(StepDecision::SkipCompleted));
        assert_eq!(decide(last(Abandoned), 1, rules), Ok(StepDecision::SkipAbandoned));
        assert_eq!(decide(last(Failed), 1, rules), Err(StepRefusal::StartLimitReached { limit: 1 }));
        assert_eq!(decide(last(Unknown), 1, rules), Err(StepRefusal::OutcomeUnknown));
    }

    proptest! {
        #[test]
        fn no_step_starts_more_often_than_its_limit(
            last in last(), starts in 0..6_u64, start_limit in 0..6_u32, allow_start_if_complete: bool,
        ) {
            let rules = StepRules { allow_start_if_complete, start_limit };
            let decision = decide(last, starts, rules);
            if starts >= u64::from(start_limit) {
                prop_assert!(!matches!(decision, Ok(StepDecision::RunFresh | StepDecision::Resume)));
            } else {
                prop_assert_eq!(decision, decide(last, 0, StepRules { start_limit: u32::MAX, ..rules }));
            }
        }

        #[test]
        fn a_step_of_the_same_execution_is_as_if_it_had_not_run(
            last in last(), starts in 0..3_u64, start_limit in 0..3_u32, allow_start_if_complete: bool,
        ) {
            let rules = StepRules { allow_start_if_complete, start_limit };
            let own = last.map(|last| LastStep { is_of_this_execution: true, ..last });
            prop_assert_eq!(decide(own, starts, rules), decide(None, starts, rules));
        }

        #[test]
        fn only_what_is_not_over_is_resumed(last in last(), allow_start_if_complete: bool) {
            let rules = StepRules { allow_start_if_complete, ..StepRules::default() };
            if decide(last, 0, rules) == Ok(StepDecision::Resume) {
                let status = last.map(|last| last.status).unwrap();
                prop_assert!(!matches!(status, Completed | Abandoned | Unknown));
            }
        }
    }

    #[test]
    fn a_failed_step_resumes_and_a_new_one_runs_afresh() {
        use crate::job::{
            BatchStatus,
            step::{self, LastStep, StepDecision, StepRules},
        };
        let failed = LastStep { status: BatchStatus::Failed, is_of_this_execution: false };
        assert_eq!(step::decide(Some(failed), 1, StepRules::default()), Ok(StepDecision::Resume));
        assert_eq!(step::decide(None, 0, StepRules::default()), Ok(StepDecision::RunFresh));
    }
}
