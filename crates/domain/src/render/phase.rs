//! Where a render is: its phase, its status and its progress. The phase is what is being done right now, finer than the
//! status. A render that waits keeps the phase in which it goes on, so that nobody renders again what only could not be
//! published.

crate::words! {
    /// What is being done, in the order in which it is done.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Phase {
        Queued = "queued",
        /// A worker has it and looks at what there is of it.
        Claimed = "claimed",
        /// The name of the job is recorded, and nexrender is about to get it.
        Submitting = "submitting",
        /// nexrender has it, and no node does.
        WaitingForNode = "waiting_for_node",
        NodePreparing = "node_preparing",
        Rendering = "rendering",
        /// The node encodes, copies or cleans up.
        Encoding = "encoding",
        Validating = "validating",
        /// The file is copied beside its final place.
        Copying = "copying",
        /// From here on the file may have its final name.
        Publishing = "publishing",
        Published = "published",
    }
}

impl Phase {
    pub const fn label(self) -> &'static str {
        match self {
            Self::Queued => "waiting for a worker",
            Self::Claimed => "claimed",
            Self::Submitting => "being submitted to nexrender",
            Self::WaitingForNode => "waiting for a render node",
            Self::NodePreparing => "being prepared on the node",
            Self::Rendering => "rendering",
            Self::Encoding => "encoding",
            Self::Validating => "being validated",
            Self::Copying => "being copied",
            Self::Publishing => "being published",
            Self::Published => "published",
        }
    }

    /// The status of a render in this phase, as long as nothing ended it.
    pub const fn status(self) -> Status {
        match self {
            Self::Queued => Status::Pending,
            Self::Claimed | Self::Submitting => Status::Preparing,
            Self::WaitingForNode | Self::NodePreparing | Self::Rendering => Status::Rendering,
            Self::Encoding => Status::Encoding,
            Self::Validating | Self::Copying | Self::Publishing => Status::Uploading,
            Self::Published => Status::Completed,
        }
    }

    pub const fn is_remote(self) -> bool {
        matches!(self, Self::WaitingForNode | Self::NodePreparing | Self::Rendering | Self::Encoding)
    }

    /// Where a render goes on that is given back: with its file if there is one, otherwise by looking at its job.
    #[must_use]
    pub const fn resumed(self) -> Self {
        match self {
            Self::Validating | Self::Copying | Self::Publishing | Self::Published => self,
            _ => Self::Queued,
        }
    }

    /// The phase of a render that was just claimed and waited in this one.
    #[must_use]
    pub const fn claimed(self) -> Self {
        match self.resumed() {
            Self::Queued => Self::Claimed,
            Self::Published => Self::Publishing,
            kept => kept,
        }
    }
}

crate::words! {
    /// Where a render is, in the words that a dashboard writes and reads by SQL.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Status {
        Pending = "pending",
        /// A worker has it, and nexrender not yet.
        Preparing = "preparing",
        Rendering = "rendering",
        /// The node encodes or copies what it has rendered.
        Encoding = "encoding",
        /// The file is there, and is checked and published.
        Uploading = "uploading",
        /// The file is published. Final.
        Completed = "completed",
        /// It was given up. Final.
        Failed = "failed",
        /// Somebody did not want it any more. Final.
        Cancelled = "cancelled",
    }
}

impl Status {
    /// Whether a worker has it: only then it has a worker and a lease.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Preparing | Self::Rendering | Self::Encoding | Self::Uploading)
    }

    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// How far a render is, in percent from 0 to 100; only [`Progress::DONE`] is 100. nexrender skips values, repeats them
/// and rarely reaches 100; people see a number that only grows, and 100 only when the file is published.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Progress(u8);

impl Progress {
    pub const NONE: Self = Self(0);
    pub const DONE: Self = Self(100);

    /// The most that a render has which is not published.
    const MOST: u8 = 99;

    /// Wraps a stored number; whatever is more than 100 is 100, and less than 0 is 0.
    pub const fn stored(percent: i64) -> Self {
        match percent {
            ..=0 => Self::NONE,
            // From 1 to 99, so nothing is cut off.
            1..=99 => Self(percent as u8),
            _ => Self::DONE,
        }
    }

    pub const fn get(self) -> u8 {
        self.0
    }

    /// After nexrender said so much: never less than before, and not yet done. What is no number says nothing.
    #[must_use]
    pub fn raised(self, percent: f64) -> Self {
        if percent.is_nan() {
            return self;
        }
        self.max(Self(percent.clamp(0.0, f64::from(Self::MOST)) as u8))
    }
}

crate::newtype::display!(Progress, progress => "{}%", progress.0);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn later_phases_have_later_statuses() {
        assert!(Phase::ALL.windows(2).all(|pair| pair[0] < pair[1] && pair[0].status() <= pair[1].status()));
    }

    #[test]
    fn whoever_claims_is_at_work_whatever_the_render_waited_for() {
        for phase in Phase::ALL {
            assert!(phase.claimed().status().is_active(), "{phase}");
            assert_eq!(phase.resumed().resumed(), phase.resumed());
            assert_eq!(phase.claimed().resumed().claimed(), phase.claimed());
        }
    }

    #[test]
    fn a_render_waits_is_at_work_or_has_ended() {
        for status in Status::ALL {
            let is_waiting = status == Status::Pending;
            let is_one_of = [is_waiting, status.is_active(), status.is_terminal()];

            assert_eq!(is_one_of.into_iter().filter(|is| *is).count(), 1, "{status}");
        }
    }

    #[test]
    fn the_words_of_nexrender_are_none_of_ours() {
        for foreign in ["finished", "error", "queued", "Pending", " pending", ""] {
            assert!(foreign.parse::<Status>().is_err(), "{foreign:?}");
        }
    }

    #[test]
    fn what_is_no_number_says_nothing() {
        let half = Progress::NONE.raised(50.0);

        assert_eq!(half.raised(f64::NAN), half);
        assert_eq!(half.raised(f64::NEG_INFINITY), half);
        assert_eq!(half.raised(f64::INFINITY).get(), 99);
        assert_eq!(half.raised(-1.0), half);
    }

    proptest! {
        #[test]
        fn it_never_falls_and_nobody_is_done_by_a_report(reports: Vec<f64>) {
            let mut progress = Progress::NONE;
            for report in reports {
                let next = progress.raised(report);
                prop_assert!(next >= progress && next < Progress::DONE);
                progress = next;
            }
        }

        #[test]
        fn what_is_stored_reads_back(percent: i64) {
            let progress = Progress::stored(percent);
            prop_assert_eq!(Progress::stored(i64::from(progress.get())), progress);
            prop_assert_eq!(i64::from(progress.get()), percent.clamp(0, 100));
        }
    }

    #[test]
    fn progress_is_whole_and_below_a_hundred_until_it_is_done() {
        use crate::render::Progress;
        let half = Progress::NONE.raised(50.9);
        assert_eq!(half.get(), 50);
        assert_eq!(half.raised(20.0), half);
        assert_eq!(half.raised(1e9).get(), 99);
    }
}
