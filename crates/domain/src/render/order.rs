//! What people may do with a render, and why not. What becomes of it then, [`decide`](super::decide) says.

use super::lifecycle::{Counts, Render};
use super::phase::Phase;
use super::progress::Progress;
use super::status::Status;
use crate::code::Code;
use crate::time::Timestamp;

/// Why an order changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OrderRefusal {
    /// It has ended.
    #[error("the render has ended, it is {status}")]
    Ended {
        /// How.
        status: Status,
    },
    /// The file may have its final name already.
    #[error("the file is being published, so it is too late to cancel the render")]
    TooLate,
    /// A worker has it.
    #[error("a worker has the render, it is {status}")]
    AtWork {
        /// Where it is.
        status: Status,
    },
    /// Nothing is left to do.
    #[error("the render is completed, and its file is published")]
    Completed,
}

impl OrderRefusal {
    /// Its stable code.
    pub const fn code(&self) -> Code {
        Code::RenderOrderRefused
    }

    /// What the reader can do about it.
    pub const fn fix(&self) -> &'static str {
        match self {
            Self::Ended { .. } => "there is nothing to cancel; to render it once more, retry it",
            Self::TooLate => "wait for its end, and take the file away if nobody may see it",
            Self::AtWork { .. } => "wait for its end, or cancel it first",
            Self::Completed => "to have another file, submit a new render",
        }
    }
}

/// Whether a render may still be cancelled.
pub fn may_cancel(render: &Render) -> Result<(), OrderRefusal> {
    match (render.status, render.phase) {
        (status, _) if status.is_terminal() => Err(OrderRefusal::Ended { status }),
        (_, Phase::Publishing) => Err(OrderRefusal::TooLate),
        _ => Ok(()),
    }
}

/// The render as it is when somebody wants it tried again at once, with all counts at nothing. What only could not be
/// published is not rendered again.
pub fn retry(render: &Render, now: Timestamp) -> Result<Render, OrderRefusal> {
    match render.status {
        Status::Completed => return Err(OrderRefusal::Completed),
        status if status.is_active() => return Err(OrderRefusal::AtWork { status }),
        Status::Pending => return Ok(Render { run_after: now, ..render.clone() }),
        _ => {}
    }
    let mut next = render.clone();
    next.status = Status::Pending;
    next.counts = Counts::default();
    next.run_after = now;
    next.cancel_requested_at = None;
    next.reason = None;
    let goes_on = match (render.status, render.phase) {
        (Status::Failed, Phase::Publishing) => true,
        (Status::Failed, Phase::Copying) => render.job.is_some(),
        _ => false,
    };
    if !goes_on {
        next.phase = Phase::Queued;
        next.progress = Progress::NONE;
        next.job = None;
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Epoch;
    use crate::render::RenderId;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000);

    fn render(status: Status, phase: Phase) -> Render {
        let counts = Counts { attempts: 4, upload: 3, ..Counts::default() };
        let job = Some(Epoch::new(2));
        Render { status, phase, counts, job, ..Render::new(RenderId::new(1), Timestamp::EPOCH) }
    }

    #[test]
    fn it_is_too_late_to_cancel_what_is_published() {
        let refused = |status, phase| may_cancel(&render(status, phase)).unwrap_err();

        assert_eq!(refused(Status::Uploading, Phase::Publishing), OrderRefusal::TooLate);
        assert_eq!(
            refused(Status::Completed, Phase::Published),
            OrderRefusal::Ended { status: Status::Completed }
        );
        assert_eq!(may_cancel(&render(Status::Uploading, Phase::Copying)), Ok(()));
        assert_eq!(may_cancel(&render(Status::Pending, Phase::Queued)), Ok(()));
    }

    #[test]
    fn what_could_only_not_be_published_is_not_rendered_again() {
        let again = retry(&render(Status::Failed, Phase::Copying), NOW).unwrap();

        assert_eq!(
            (again.status, again.phase, again.job),
            (Status::Pending, Phase::Copying, Some(Epoch::new(2)))
        );
        assert_eq!((again.counts, again.run_after), (Counts::default(), NOW));
    }

    #[test]
    fn what_was_cancelled_or_failed_before_begins_anew() {
        for (status, phase) in [
            (Status::Cancelled, Phase::Copying),
            (Status::Failed, Phase::Rendering),
            (Status::Failed, Phase::Validating),
        ] {
            let again = retry(&render(status, phase), NOW).unwrap();
            assert_eq!((again.phase, again.job), (Phase::Queued, None), "{status} {phase}");
        }
    }

    #[test]
    fn nothing_is_tried_again_that_runs_or_is_complete() {
        let refused = |status, phase| retry(&render(status, phase), NOW).unwrap_err();

        assert_eq!(refused(Status::Completed, Phase::Published), OrderRefusal::Completed);
        assert_eq!(
            refused(Status::Rendering, Phase::Rendering),
            OrderRefusal::AtWork { status: Status::Rendering }
        );
        assert!(!OrderRefusal::Completed.fix().is_empty());
        let waiting = retry(&render(Status::Pending, Phase::Copying), NOW).unwrap();
        assert_eq!((waiting.run_after, waiting.phase, waiting.counts.attempts), (NOW, Phase::Copying, 4));
    }
}
