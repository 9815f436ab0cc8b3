//! The phase: what is being done with a render right now, finer than its status. A render that waits keeps the phase
//! in which it goes on, so that nobody renders again what only could not be published.

use super::status::Status;

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
        /// A node fetches what it needs.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
