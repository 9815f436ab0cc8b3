//! Retention: which renders may be deleted, with their attempts and files. What has not ended stays, and published files stay
//! unless they are asked for.

use super::Render;
use crate::lease::Lease;
use crate::newtype::check_all;
use crate::time::Timestamp;
use std::time::Duration;

/// What happens to the published files of renders that are deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Films {
    Keep,
    /// Together, the published files of renders that stay keep within this many bytes.
    Delete {
        bytes_max: Option<u64>,
    },
}

/// A render is deleted when it is beyond all limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    pub older_than: Duration,
    pub films: Films,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RenderFacts<'a> {
    pub render: &'a Render,
    pub ended_at: Option<Timestamp>,
    /// Whether nexrender may still have a job of it.
    pub has_job: bool,
    /// The bytes of all published files, with its own.
    pub bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kept {
    NotEnded,
    /// Its worker has not noticed the end yet.
    Held,
    JobLeft,
    TooYoung,
    /// The published files are within their limit.
    WithinSize,
    /// Its files could not be deleted.
    FilesLeft,
    /// It was changed meanwhile.
    Changed,
}

impl Retention {
    /// Renders that ended after this instant are kept.
    pub fn cutoff(&self, now: Timestamp) -> Timestamp {
        now.minus(self.older_than)
    }

    /// Whether a render may be deleted. Total.
    pub fn decide(&self, facts: &RenderFacts<'_>, now: Timestamp) -> Result<(), Kept> {
        let RenderFacts { render, ended_at, has_job, bytes } = *facts;
        let is_too_much = match self.films {
            Films::Delete { bytes_max: Some(bytes_max) } => bytes > bytes_max,
            Films::Keep | Films::Delete { bytes_max: None } => true,
        };
        check_all([
            (render.status.is_terminal(), Kept::NotEnded),
            (matches!(render.lease, Lease::Free { .. }), Kept::Held),
            (!has_job, Kept::JobLeft),
            (ended_at.is_some_and(|at| at < self.cutoff(now)), Kept::TooYoung),
            (is_too_much, Kept::WithinSize),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Epoch, Fence};
    use crate::process::ProcessId;
    use crate::render::{RenderId, Status};

    const DAY: Duration = Duration::from_secs(86_400);

    fn decided(
        change: impl Fn(&mut Render),
        adjust: impl Fn(&mut RenderFacts<'_>),
        films: Films,
    ) -> Result<(), Kept> {
        let now = Timestamp::EPOCH.plus(60 * DAY);
        let mut render =
            Render { status: Status::Completed, ..Render::new(RenderId::new(1), Timestamp::EPOCH) };
        change(&mut render);
        let ended_at = Some(Timestamp::EPOCH.plus(29 * DAY));
        let mut facts = RenderFacts { render: &render, ended_at, has_job: false, bytes: 100 };
        adjust(&mut facts);
        Retention { older_than: 30 * DAY, films }.decide(&facts, now)
    }

    #[test]
    fn only_what_ended_long_ago_and_is_left_alone_may_go() {
        for status in Status::ALL {
            let expected = if status.is_terminal() { Ok(()) } else { Err(Kept::NotEnded) };
            assert_eq!(decided(|render| render.status = status, |_| {}, Films::Keep), expected, "{status}");
        }
        let fence = Fence { owner: ProcessId::new(uuid::Uuid::nil()), epoch: Epoch::new(3) };
        let held = |render: &mut Render| render.lease = Lease::Held { fence, until: None };
        assert_eq!(decided(held, |_| {}, Films::Keep), Err(Kept::Held));
        let young = Timestamp::EPOCH.plus(30 * DAY);
        assert_eq!(decided(|_| {}, |facts| facts.ended_at = Some(young), Films::Keep), Err(Kept::TooYoung));
        assert_eq!(decided(|_| {}, |facts| facts.ended_at = None, Films::Keep), Err(Kept::TooYoung));
        assert_eq!(decided(|_| {}, |facts| facts.has_job = true, Films::Keep), Err(Kept::JobLeft));
    }

    #[test]
    fn films_go_until_the_rest_fits() {
        let at_most = |bytes_max| decided(|_| {}, |_| {}, Films::Delete { bytes_max });

        let decided = [at_most(None), at_most(Some(99)), at_most(Some(100))];
        assert_eq!(decided, [Ok(()), Ok(()), Err(Kept::WithinSize)]);
    }
}
