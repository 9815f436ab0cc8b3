//! Whether a job may be launched, given the history of its instance.
//!
//! The checks are those of Spring Batch 5.2, in its order, so that the same reason is reported:
//!
//! ```text
//!   there is an execution, the job is not restartable       NotRestartable
//!   a step of the last execution runs                       StepRunning
//!   a step of the last execution is UNKNOWN                 StepUnknown
//!   the parameters are not accepted                         ParametersInvalid
//!   any execution runs                                      AlreadyRunning
//!   any execution is UNKNOWN                                OutcomeUnknown
//!   any execution is COMPLETED or ABANDONED,
//!     and there are identifying parameters                  AlreadyComplete
//!   the last execution is not COMPLETED,
//!     the definition has changed and is not accepted        DefinitionChanged
//!   otherwise                                               First, or Restart when there is an execution
//! ```
//!
//! The last check is not in Spring Batch, which does not know a job's definition.
//!
//! A job without identifying parameters has one instance, which may be launched again; it skips completed steps.

use super::parameter::ParametersInvalid;
use super::{BatchStatus, ExecutionId};
use crate::newtype::check_all;
use crate::time::Timestamp;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InstanceHistory<'a> {
    /// Oldest first; empty for a new instance.
    pub executions: &'a [BatchStatus],
    pub last_steps: &'a [(String, BatchStatus)],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaunchRules {
    /// Whether the job may run more than once per instance.
    pub is_restartable: bool,
    pub has_identifying: bool,
    /// The definition differs from the last execution's, and the change is not accepted.
    pub has_changed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Launch {
    /// With an empty context.
    First,
    /// With a copy of the job context of the last execution.
    Restart,
}

/// The execution with which an instance ended for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InstanceEnd {
    pub execution: ExecutionId,
    pub status: BatchStatus,
    pub at: Timestamp,
}

crate::newtype::display!(
    InstanceEnd,
    end => "{} on {:.19}Z (execution {})",
    match end.status {
        BatchStatus::Abandoned => "this instance was abandoned",
        _ => "nothing to do: this instance completed",
    },
    end.at.to_string(),
    end.execution
);

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchRefusal {
    #[error("the job has run with these parameters before, and it does not allow a restart")]
    NotRestartable,
    #[error("step {step:?} of the last execution counts as running")]
    StepRunning { step: String },
    #[error("the outcome of step {step:?} of the last execution is unknown")]
    StepUnknown { step: String },
    #[error(transparent)]
    ParametersInvalid(ParametersInvalid),
    #[error("the job is already running with these parameters")]
    AlreadyRunning,
    #[error("the outcome of an earlier execution with these parameters is unknown")]
    OutcomeUnknown,
    /// [`decide`] does not know the end; the store adds it.
    #[error("{}", .0.map_or("the job has already been completed or abandoned with these parameters".to_owned(), |end| end.to_string()))]
    AlreadyComplete(Option<InstanceEnd>),
    #[error("the definition of the job has changed since its last execution")]
    DefinitionChanged,
}

crate::code::coded!(LaunchRefusal {
    NotRestartable => JobNotRestartable, "launch it with other identifying parameters, or declare the job restartable";
    StepRunning | AlreadyRunning => JobAlreadyRunning,
        "wait for it or stop it; if the process that ran it is gone, recover the execution";
    StepUnknown | OutcomeUnknown => JobOutcomeUnknown,
        "check what it has written, then recover the execution to continue, or abandon it";
    ParametersInvalid => BadJobParameters,
        "correct the parameters; write each as name=value, name=value,type or name=value,type,identifying";
    AlreadyComplete => JobAlreadyComplete,
        "to run it again, launch a new instance with --next (in the API: \"next\": true), or change an identifying parameter";
    DefinitionChanged => JobChanged,
        "check that what has been done fits the new definition, then accept the change with --accept-change; or launch it with other identifying parameters";
});

/// Whether and how the job starts; `parameters` is the result of [`super::parameter::check`]. Total.
pub fn decide(
    history: &InstanceHistory<'_>,
    rules: LaunchRules,
    parameters: Result<(), ParametersInvalid>,
) -> Result<Launch, LaunchRefusal> {
    let InstanceHistory { executions, last_steps } = history;
    let is_first = executions.is_empty();
    if !is_first {
        if !rules.is_restartable {
            return Err(LaunchRefusal::NotRestartable);
        }
        let first = |is_meant: fn(BatchStatus) -> bool| {
            last_steps.iter().find(|(_, status)| is_meant(*status)).map(|(step, _)| step.clone())
        };
        if let Some(step) = first(BatchStatus::is_running) {
            return Err(LaunchRefusal::StepRunning { step });
        }
        if let Some(step) = first(|status| status == BatchStatus::Unknown) {
            return Err(LaunchRefusal::StepUnknown { step });
        }
    }
    parameters.map_err(LaunchRefusal::ParametersInvalid)?;
    let is_over = |status: &BatchStatus| matches!(status, BatchStatus::Completed | BatchStatus::Abandoned);
    // A complete execution leaves nothing that a changed job could continue.
    let goes_on = executions.last().is_some_and(|status| *status != BatchStatus::Completed);
    check_all([
        (!executions.iter().any(|status| status.is_running()), LaunchRefusal::AlreadyRunning),
        (!executions.contains(&BatchStatus::Unknown), LaunchRefusal::OutcomeUnknown),
        (!rules.has_identifying || !executions.iter().any(is_over), LaunchRefusal::AlreadyComplete(None)),
        (!goes_on || !rules.has_changed, LaunchRefusal::DefinitionChanged),
    ])?;
    Ok(if is_first { Launch::First } else { Launch::Restart })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::BatchStatus::{Abandoned, Completed, Failed, Started, Stopped, Unknown};
    use crate::job::JobParameters;
    use crate::job::parameter;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const USUAL: LaunchRules =
        LaunchRules { is_restartable: true, has_identifying: true, has_changed: false };

    fn invalid() -> ParametersInvalid {
        parameter::check(&JobParameters::new().with("", 1), &[]).unwrap_err()
    }

    fn after(executions: &[BatchStatus], rules: LaunchRules) -> Result<Launch, LaunchRefusal> {
        decide(&InstanceHistory { executions, last_steps: &[] }, rules, Ok(()))
    }

    #[test]
    fn a_new_instance_starts_even_if_the_job_is_not_restartable() {
        let once = LaunchRules { is_restartable: false, ..USUAL };

        assert_eq!(after(&[], once), Ok(Launch::First));
        assert_eq!(after(&[Failed], once), Err(LaunchRefusal::NotRestartable));
    }

    #[test]
    fn what_failed_or_was_stopped_is_restarted_and_what_is_over_is_not() {
        assert_eq!(after(&[Failed, Stopped], USUAL), Ok(Launch::Restart));
        assert_eq!(after(&[Failed, Completed], USUAL), Err(LaunchRefusal::AlreadyComplete(None)));
        assert_eq!(after(&[Abandoned], USUAL), Err(LaunchRefusal::AlreadyComplete(None)));
        assert_eq!(after(&[Started], USUAL), Err(LaunchRefusal::AlreadyRunning));
        assert_eq!(after(&[Unknown, Failed], USUAL), Err(LaunchRefusal::OutcomeUnknown));
    }

    #[test]
    fn a_job_without_identifying_parameters_may_be_launched_again_after_its_end() {
        let rules = LaunchRules { has_identifying: false, ..USUAL };

        assert_eq!(after(&[Completed], rules), Ok(Launch::Restart));
        assert_eq!(after(&[Abandoned], rules), Ok(Launch::Restart));
        assert_eq!(after(&[Completed, Started], rules), Err(LaunchRefusal::AlreadyRunning));
    }

    #[test]
    fn a_step_that_counts_as_running_is_named_although_its_execution_has_ended() {
        let last_steps = [("load".to_owned(), Unknown), ("sum".to_owned(), Started)];
        let history = InstanceHistory { executions: &[Failed], last_steps: &last_steps };

        assert_eq!(decide(&history, USUAL, Ok(())), Err(LaunchRefusal::StepRunning { step: "sum".into() }));
        let history = InstanceHistory { last_steps: &last_steps[..1], ..history };
        assert_eq!(
            decide(&history, USUAL, Err(invalid())),
            Err(LaunchRefusal::StepUnknown { step: "load".into() })
        );
    }

    #[test]
    fn every_refusal_has_a_code_of_jobs_and_says_what_helps() {
        let step = String::from("s");
        for refusal in [
            LaunchRefusal::NotRestartable,
            LaunchRefusal::StepRunning { step: step.clone() },
            LaunchRefusal::StepUnknown { step },
            LaunchRefusal::ParametersInvalid(invalid()),
            LaunchRefusal::AlreadyRunning,
            LaunchRefusal::OutcomeUnknown,
            LaunchRefusal::AlreadyComplete(None),
            LaunchRefusal::DefinitionChanged,
        ] {
            assert!(matches!(refusal.code().number(), 1003..=1007 | 1019), "{refusal}");
            assert!(!refusal.fix().is_empty() && !refusal.to_string().is_empty());
        }
    }

    fn statuses() -> impl Strategy<Value = Vec<BatchStatus>> {
        vec((0..BatchStatus::ALL.len()).prop_map(|index| BatchStatus::ALL[index]), 0..4)
    }

    /// The table in the module's comment: whether each row applies, and its answer.
    fn table(
        executions: &[BatchStatus],
        steps: &[BatchStatus],
        rules: LaunchRules,
        are_parameters_valid: bool,
    ) -> &'static str {
        let has =
            |all: &[BatchStatus], words: &[&str]| all.iter().any(|status| words.contains(&status.as_str()));
        let running = ["STARTING", "STARTED", "STOPPING"];
        let rows = [
            (!executions.is_empty() && !rules.is_restartable, "not restartable"),
            (!executions.is_empty() && has(steps, &running), "step running"),
            (!executions.is_empty() && has(steps, &["UNKNOWN"]), "step unknown"),
            (!are_parameters_valid, "parameters"),
            (has(executions, &running), "running"),
            (has(executions, &["UNKNOWN"]), "unknown"),
            (rules.has_identifying && has(executions, &["COMPLETED", "ABANDONED"]), "complete"),
            (
                rules.has_changed && executions.last().is_some_and(|last| last.as_str() != "COMPLETED"),
                "changed",
            ),
            (!executions.is_empty(), "restart"),
            (true, "first"),
        ];
        rows.into_iter().find(|(applies, _)| *applies).map(|(_, answer)| answer).unwrap()
    }

    fn word(answer: &Result<Launch, LaunchRefusal>) -> &'static str {
        match answer {
            Ok(Launch::First) => "first",
            Ok(Launch::Restart) => "restart",
            Err(LaunchRefusal::NotRestartable) => "not restartable",
            Err(LaunchRefusal::StepRunning { .. }) => "step running",
            Err(LaunchRefusal::StepUnknown { .. }) => "step unknown",
            Err(LaunchRefusal::ParametersInvalid(_)) => "parameters",
            Err(LaunchRefusal::AlreadyRunning) => "running",
            Err(LaunchRefusal::OutcomeUnknown) => "unknown",
            Err(LaunchRefusal::AlreadyComplete(_)) => "complete",
            Err(LaunchRefusal::DefinitionChanged) => "changed",
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn the_first_row_of_the_table_that_applies_is_the_answer(
            executions in statuses(),
            steps in statuses(),
            is_restartable: bool,
            has_identifying: bool,
            has_changed: bool,
            are_parameters_valid: bool,
        ) {
            let rules = LaunchRules { is_restartable, has_identifying, has_changed };
            let last_steps: Vec<_> = steps.iter().map(|status| (status.to_string(), *status)).collect();
            let history = InstanceHistory { executions: &executions, last_steps: &last_steps };
            let parameters = if are_parameters_valid { Ok(()) } else { Err(invalid()) };

            let answer = decide(&history, rules, parameters);

            prop_assert_eq!(word(&answer), table(&executions, &steps, rules, are_parameters_valid));
        }

        #[test]
        fn nothing_is_launched_next_to_what_runs(executions in statuses(), has_identifying: bool) {
            let answer = after(&executions, LaunchRules { has_identifying, ..USUAL });
            if executions.iter().any(|status| status.is_running()) {
                prop_assert_eq!(answer, Err(LaunchRefusal::AlreadyRunning));
            }
        }
    }

    #[test]
    fn a_failed_instance_restarts() {
        use crate::job::{
            BatchStatus,
            launch::{self, InstanceHistory, Launch, LaunchRules},
        };
        let rules = LaunchRules { is_restartable: true, has_identifying: true, has_changed: false };
        let failed = InstanceHistory { executions: &[BatchStatus::Failed], last_steps: &[] };
        assert_eq!(launch::decide(&failed, rules, Ok(())), Ok(Launch::Restart));
    }
}
