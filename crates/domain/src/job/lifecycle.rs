//! State changes of a job execution: its normal course, operators, and crashes.
//!
//! ```text
//!   STARTING ──begin──► STARTED ──end──► COMPLETED, STOPPED, FAILED or UNKNOWN
//!      └──request stop──┴──► STOPPING ──end──► the same four
//!   any of the three running ones ──owner lost, recover──► FAILED
//!   UNKNOWN ──recover──► FAILED
//!   STOPPED, FAILED, UNKNOWN ──abandon──► ABANDONED
//! ```
//!
//! Invariants: an ended execution never runs again (a restart is a new execution); COMPLETED and ABANDONED never change;
//! an execution is never taken from a live process.

use super::BatchStatus;
use crate::lease::Life;

/// What happens when the process that runs an execution is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnCrash {
    /// The execution fails, and an operator decides.
    #[default]
    Fail,
    /// The job restarts by itself, at most `limit` times in a row. A restart by an operator resets the count.
    Restart { limit: u32 },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must be fail or restart")]
pub struct NotAnOnCrash;

crate::newtype::named!(OnCrash, as_str { Fail = "fail", Restart = "restart" });

impl OnCrash {
    /// `limit` counts only for a restart.
    pub fn parse(word: &str, limit: u32) -> Result<Self, NotAnOnCrash> {
        match word {
            "fail" => Ok(Self::Fail),
            "restart" => Ok(Self::Restart { limit }),
            _ => Err(NotAnOnCrash),
        }
    }

    pub const fn limit(self) -> u32 {
        match self {
            Self::Fail => 0,
            Self::Restart { limit } => limit,
        }
    }

    /// Whether the job restarts by itself after `restarts` such restarts.
    pub const fn restarts_after(self, restarts: u32) -> bool {
        restarts < self.limit()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExecutionEvent {
    Begin,
    RequestStop,
    End(BatchStatus),
    Abandon,
    OwnerLost,
    /// An operator says that nothing runs any more; the caller checked the process.
    Recover(Life),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutionRefusal {
    #[error("the execution is not running, it is {status}")]
    NotRunning { status: BatchStatus },
    #[error("the execution is still running, it is {status}")]
    StillRunning { status: BatchStatus },
    #[error("the execution has already begun")]
    AlreadyBegun,
    #[error("the execution is COMPLETED and cannot be abandoned")]
    AlreadyComplete,
    #[error("the process that runs the execution is alive")]
    OwnerAlive,
    #[error("an execution does not end as {status}")]
    NotAnEnd { status: BatchStatus },
}

crate::code::coded!(ExecutionRefusal {
    NotRunning => ExecutionNotRunning, "the execution has ended; to resume the job, restart it";
    StillRunning => ExecutionStillRunning,
        "stop it and wait for its end; if the process that ran it is gone, recover the execution";
    AlreadyBegun => JobAlreadyRunning, "leave it to the process that runs it";
    AlreadyComplete => JobAlreadyComplete, "nothing to do; its result is final";
    OwnerAlive => ExecutionOwnerAlive,
        "stop the execution with `tidemill job stop`, or end its process and wait until its lease expires";
    NotAnEnd => Unexpected, "report this as a bug, with the text above";
});

/// Whether the process that runs an execution in this status has to stop: somebody requested it, or another program has
/// ended the execution. Spring Batch abandons one that is STOPPING without waiting for its end.
pub const fn must_stop(status: BatchStatus) -> bool {
    !matches!(status, BatchStatus::Starting | BatchStatus::Started)
}

/// The status after `event`, or the refusal. Total.
pub fn next(status: BatchStatus, event: ExecutionEvent) -> Result<BatchStatus, ExecutionRefusal> {
    use BatchStatus::{Abandoned, Completed, Failed, Started, Starting, Stopped, Stopping, Unknown};
    match (status, event) {
        (Starting, ExecutionEvent::Begin) => Ok(Started),
        // A stop was requested before the start; it must not be lost.
        (Stopping, ExecutionEvent::Begin) => Ok(Stopping),
        (Started, ExecutionEvent::Begin) => Err(ExecutionRefusal::AlreadyBegun),

        (Starting | Started | Stopping, ExecutionEvent::RequestStop) => Ok(Stopping),

        (
            Starting | Started | Stopping,
            ExecutionEvent::End(end @ (Completed | Stopped | Failed | Abandoned | Unknown)),
        ) => Ok(end),
        (Starting | Started | Stopping, ExecutionEvent::End(end)) => {
            Err(ExecutionRefusal::NotAnEnd { status: end })
        }

        (Stopped | Failed | Unknown | Abandoned, ExecutionEvent::Abandon) => Ok(Abandoned),
        (Starting | Started | Stopping, ExecutionEvent::Abandon) => {
            Err(ExecutionRefusal::StillRunning { status })
        }
        (Completed, ExecutionEvent::Abandon) => Err(ExecutionRefusal::AlreadyComplete),

        (Starting | Started | Stopping, ExecutionEvent::OwnerLost) => Ok(Failed),
        // The end was recorded before the owner was lost.
        (_, ExecutionEvent::OwnerLost) => Ok(status),

        (Starting | Started | Stopping, ExecutionEvent::Recover(Life::Alive)) => {
            Err(ExecutionRefusal::OwnerAlive)
        }
        (Starting | Started | Stopping, ExecutionEvent::Recover(Life::Gone)) => Ok(Failed),
        // The operator has checked what was written.
        (Unknown, ExecutionEvent::Recover(_)) => Ok(Failed),

        (
            Completed | Stopped | Failed | Abandoned | Unknown,
            ExecutionEvent::Begin | ExecutionEvent::RequestStop | ExecutionEvent::End(_),
        )
        | (Completed | Stopped | Failed | Abandoned, ExecutionEvent::Recover(_)) => {
            Err(ExecutionRefusal::NotRunning { status })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::BatchStatus::{Abandoned, Completed, Failed, Started, Starting, Stopped, Stopping, Unknown};
    use super::*;
    use crate::code::Code;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn events() -> Vec<ExecutionEvent> {
        let mut events = vec![
            ExecutionEvent::Begin,
            ExecutionEvent::RequestStop,
            ExecutionEvent::Abandon,
            ExecutionEvent::OwnerLost,
            ExecutionEvent::Recover(Life::Alive),
            ExecutionEvent::Recover(Life::Gone),
        ];
        events.extend(BatchStatus::ALL.map(ExecutionEvent::End));
        events
    }

    /// The next status, in the order of [`BatchStatus::ALL`]; none when the event is refused.
    fn check(event: ExecutionEvent, expected: [Option<BatchStatus>; 8]) {
        for (status, expected) in BatchStatus::ALL.into_iter().zip(expected) {
            assert_eq!(next(status, event).ok(), expected, "{status} {event:?}");
        }
    }

    #[test]
    fn each_event_does_to_each_status_what_the_diagram_says() {
        let no = None;
        // From COMPLETED, STARTING, STARTED, STOPPING, STOPPED, FAILED, ABANDONED and UNKNOWN, in this order.
        check(ExecutionEvent::Begin, [no, Some(Started), no, Some(Stopping), no, no, no, no]);
        let stopping = Some(Stopping);
        check(ExecutionEvent::RequestStop, [no, stopping, stopping, stopping, no, no, no, no]);
        for end in [Completed, Stopped, Failed, Abandoned, Unknown] {
            check(ExecutionEvent::End(end), [no, Some(end), Some(end), Some(end), no, no, no, no]);
        }
        for end in [Starting, Started, Stopping] {
            check(ExecutionEvent::End(end), [no; 8]);
        }
        let given_up = Some(Abandoned);
        check(ExecutionEvent::Abandon, [no, no, no, no, given_up, given_up, given_up, given_up]);
        let failed = Some(Failed);
        let unchanged =
            [Some(Completed), failed, failed, failed, Some(Stopped), failed, given_up, Some(Unknown)];
        check(ExecutionEvent::OwnerLost, unchanged);
        check(ExecutionEvent::Recover(Life::Gone), [no, failed, failed, failed, no, no, no, failed]);
        check(ExecutionEvent::Recover(Life::Alive), [no, no, no, no, no, no, no, failed]);
    }

    #[test]
    fn a_refusal_says_what_is_in_the_way() {
        for (status, event, code) in [
            (Started, ExecutionEvent::Begin, Code::JobAlreadyRunning),
            (Failed, ExecutionEvent::Begin, Code::ExecutionNotRunning),
            (Completed, ExecutionEvent::RequestStop, Code::ExecutionNotRunning),
            (Stopped, ExecutionEvent::End(Completed), Code::ExecutionNotRunning),
            (Stopped, ExecutionEvent::End(Started), Code::ExecutionNotRunning),
            (Started, ExecutionEvent::End(Stopping), Code::Unexpected),
            (Stopping, ExecutionEvent::Abandon, Code::ExecutionStillRunning),
            (Completed, ExecutionEvent::Abandon, Code::JobAlreadyComplete),
            (Stopping, ExecutionEvent::Recover(Life::Alive), Code::ExecutionOwnerAlive),
            (Stopped, ExecutionEvent::Recover(Life::Alive), Code::ExecutionNotRunning),
            (Abandoned, ExecutionEvent::Recover(Life::Gone), Code::ExecutionNotRunning),
        ] {
            let refusal = next(status, event).unwrap_err();
            assert_eq!(refusal.code(), code, "{status} {event:?}");
            assert!(!refusal.fix().is_empty());
        }
    }

    #[test]
    fn what_has_ended_never_runs_again_and_some_ends_are_for_good() {
        for status in BatchStatus::ALL.into_iter().filter(|status| !status.is_running()) {
            for event in events() {
                let after = next(status, event).unwrap_or(status);
                assert!(!after.is_running(), "{status} {event:?}");
                assert!(after == status || !matches!(status, Completed | Abandoned), "{status} {event:?}");
            }
        }
    }

    #[test]
    fn a_process_goes_on_only_while_nobody_else_wants_or_has_recorded_an_end() {
        let going_on: Vec<_> = BatchStatus::ALL.into_iter().filter(|status| !must_stop(*status)).collect();

        assert_eq!(going_on, [Starting, Started]);
    }

    #[test]
    fn what_is_done_after_a_crash_reads_back_and_is_bounded() {
        for on_crash in [OnCrash::Fail, OnCrash::Restart { limit: 3 }] {
            assert_eq!(OnCrash::parse(on_crash.as_str(), on_crash.limit()), Ok(on_crash));
        }
        assert_eq!(OnCrash::parse("Restart", 3), Err(NotAnOnCrash));
        assert!(!OnCrash::Fail.restarts_after(0));
        assert!(OnCrash::Restart { limit: 3 }.restarts_after(2));
        assert!(!OnCrash::Restart { limit: 3 }.restarts_after(3));
    }

    #[test]
    fn nobody_takes_an_execution_from_a_process_that_is_alive() {
        for status in BatchStatus::ALL.into_iter().filter(|status| status.is_running()) {
            let refusal = Err(ExecutionRefusal::OwnerAlive);
            assert_eq!(next(status, ExecutionEvent::Recover(Life::Alive)), refusal);
            assert_eq!(next(status, ExecutionEvent::Abandon), Err(ExecutionRefusal::StillRunning { status }));
        }
    }

    proptest! {
        #[test]
        fn no_sequence_of_events_wakes_what_has_ended_or_forgets_a_request_to_stop(
            sequence in vec((0..14_usize).prop_map(|index| events()[index]), 0..12),
        ) {
            let mut status = Starting;
            let (mut has_ended, mut is_stop_requested) = (false, false);
            for event in sequence {
                status = next(status, event).unwrap_or(status);
                has_ended |= !status.is_running();
                is_stop_requested |= status == Stopping;
                prop_assert_eq!(has_ended, !status.is_running());
                prop_assert!(has_ended || !is_stop_requested || status == Stopping);
            }
        }
    }

    #[test]
    fn a_started_execution_stops_and_a_completed_one_is_not_abandoned() {
        use crate::job::{
            BatchStatus,
            lifecycle::{self, ExecutionEvent},
        };
        let stopping = lifecycle::next(BatchStatus::Started, ExecutionEvent::RequestStop);
        assert_eq!(stopping, Ok(BatchStatus::Stopping));
        assert!(lifecycle::next(BatchStatus::Completed, ExecutionEvent::Abandon).is_err());
    }
}
