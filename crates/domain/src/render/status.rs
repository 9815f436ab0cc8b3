//! Where a render is, in the words that a dashboard writes and reads by SQL.

crate::words! {
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Status {
        /// It waits for a worker.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
