//! Phase, status and progress of a render. The phase is finer than the status. A waiting render keeps the phase in which it
//! continues, so that one that only could not be published is not rendered again.

crate::words! {
    /// In order.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Phase => label: &'static str {
        Queued = "queued" => "waiting for a worker",
        /// A worker has it and checks what exists.
        Claimed = "claimed" => "claimed",
        /// The name of the job is stored, and nexrender is about to get it.
        Submitting = "submitting" => "being submitted to nexrender",
        /// nexrender has it, but no node yet.
        WaitingForNode = "waiting_for_node" => "waiting for a render node",
        NodePreparing = "node_preparing" => "being prepared on the node",
        Rendering = "rendering" => "rendering",
        /// The node encodes, copies or cleans up.
        Encoding = "encoding" => "encoding",
        Validating = "validating" => "being validated",
        /// The file is copied next to its final place.
        Copying = "copying" => "being copied",
        /// From here on the file may have its final name.
        Publishing = "publishing" => "being published",
        Published = "published" => "published",
    }
}

impl Phase {
    /// The status of a render in this phase, unless it has ended.
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

    /// Where a render continues after it was given back: with its file if there is one, otherwise with its job.
    #[must_use]
    pub const fn resumed(self) -> Self {
        match self {
            Self::Validating | Self::Copying | Self::Publishing | Self::Published => self,
            _ => Self::Queued,
        }
    }

    /// The phase right after a claim of a render that waited in this one.
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
    /// Dashboards read and write these words by SQL.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Status {
        Pending = "pending",
        /// A worker has it, but nexrender not yet.
        Preparing = "preparing",
        Rendering = "rendering",
        Encoding = "encoding",
        /// The file is checked and published.
        Uploading = "uploading",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl Status {
    /// Whether a worker has it. Only then it has a lease.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Preparing | Self::Rendering | Self::Encoding | Self::Uploading)
    }

    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// In percent; only [`Progress::DONE`] is 100. nexrender skips and repeats values and rarely reaches 100; people see a
/// number that only grows, and 100 only when the file is published.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Progress(u8);

impl Progress {
    pub const NONE: Self = Self(0);
    pub const DONE: Self = Self(100);

    /// The maximum before the file is published.
    const MOST: u8 = 99;

    /// Numbers are clamped to 0 to 100.
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

    /// After nexrender's report: never less than before, and below 100. NaN is ignored.
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
