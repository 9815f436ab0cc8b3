//! Renders that one action changes together: which statuses it takes, how many, and changes of their priority.

use super::{Render, Status};
use crate::action::Action;
use crate::code::Code;

/// One transaction changes no more.
pub const SELECTED_MAX: usize = 1_000;

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadSelection {
    #[error("more than {SELECTED_MAX} renders match")]
    TooMany,
    #[error("{verb} is not possible for renders that are {status}")]
    Never { verb: &'static str, status: Status },
}

crate::code::coded!(BadSelection {
    TooMany => BadRequest, "narrow the filter, for example by composition or broadcast date";
    Never => BadRequest, "choose another status";
});

/// The action on each of many renders.
pub const fn of_each(action: Action) -> Action {
    match action {
        Action::RendersCancel => Action::RenderCancel,
        Action::RendersRetry | Action::BatchRetry => Action::RenderRetry,
        Action::RendersPrioritize => Action::RenderPrioritize,
        other => other,
    }
}

/// The statuses of the renders that an action on all that match changes: `given` is the status of the filter. Without
/// one, a retry takes only what has failed: whoever cancelled a render does not want it.
pub fn statuses(action: Action, given: Option<Status>) -> Result<Vec<Status>, BadSelection> {
    let fits = |status: Status| match of_each(action) {
        Action::RenderCancel => !status.is_terminal(),
        Action::RenderRetry => matches!(status, Status::Pending | Status::Failed | Status::Cancelled),
        Action::RenderPrioritize => status == Status::Pending,
        _ => false,
    };
    match given {
        Some(status) if fits(status) => Ok(vec![status]),
        Some(status) => Err(BadSelection::Never { verb: action.verb(), status }),
        None if of_each(action) == Action::RenderRetry => Ok(vec![Status::Failed]),
        None => Ok(Status::ALL.into_iter().filter(|status| fits(*status)).collect()),
    }
}

/// Whether an action on all that match takes a render. A retry leaves out what a person has rejected: the same film would be
/// rendered again.
pub fn takes(action: Action, render: &Render) -> bool {
    let is_rejected = render.reason.as_ref().is_some_and(|reason| reason.code == Code::RenderNotApproved);
    of_each(action) != Action::RenderRetry || !is_rejected
}

pub const fn check_count(count: usize) -> Result<(), BadSelection> {
    if count > SELECTED_MAX { Err(BadSelection::TooMany) } else { Ok(()) }
}

/// Higher priorities are rendered first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PriorityChange {
    To(i32),
    By(i32),
}

impl PriorityChange {
    /// None unless exactly one is given.
    pub const fn of(to: Option<i32>, by: Option<i32>) -> Option<Self> {
        match (to, by) {
            (Some(to), None) => Some(Self::To(to)),
            (None, Some(by)) => Some(Self::By(by)),
            _ => None,
        }
    }

    pub fn of_priority(self, before: i64) -> i64 {
        match self {
            Self::To(to) => to.into(),
            Self::By(by) => before.saturating_add(by.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::lifecycle::Reason;
    use crate::render::order::{may_cancel, may_prioritize, retry};
    use crate::render::{Phase, RenderId};
    use crate::time::Timestamp;
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp::EPOCH;

    fn is_refused(action: Action, render: &Render) -> bool {
        match action {
            Action::RendersCancel => may_cancel(render).is_err(),
            Action::RendersRetry => retry(render, NOW).is_err(),
            _ => may_prioritize(render).is_err(),
        }
    }

    #[test]
    fn what_a_filter_leaves_out_is_what_the_rule_of_one_render_refuses() {
        for action in [Action::RendersCancel, Action::RendersRetry, Action::RendersPrioritize] {
            for phase in Phase::ALL {
                for status in Status::ALL {
                    let render = Render { status, phase, ..Render::new(RenderId::new(1), NOW) };
                    let has_begun = phase == Phase::Publishing && action == Action::RendersCancel;
                    let taken = statuses(action, Some(status));
                    assert!(has_begun || taken.is_err() == is_refused(action, &render), "{action} {status}");
                }
            }
            let all = statuses(action, None).unwrap();
            assert!(all.iter().all(|status| statuses(action, Some(*status)) == Ok(vec![*status])));
        }
        assert_eq!(statuses(Action::RendersRetry, None), Ok(vec![Status::Failed]));
        let never = statuses(Action::RendersRetry, Some(Status::Completed)).unwrap_err();
        assert_eq!(never.to_string(), "retry is not possible for renders that are completed");
        assert_eq!(
            (check_count(SELECTED_MAX), check_count(SELECTED_MAX + 1)),
            (Ok(()), Err(BadSelection::TooMany))
        );
    }

    #[test]
    fn what_a_person_has_rejected_is_retried_by_its_id_only() {
        let failed = |code| {
            let reason = Some(Reason { code, message: "the name is wrong".into() });
            Render { status: Status::Failed, reason, ..Render::new(RenderId::new(1), NOW) }
        };

        for action in [Action::RendersRetry, Action::BatchRetry] {
            assert!(!takes(action, &failed(Code::RenderNotApproved)), "{action}");
            assert!(takes(action, &failed(Code::RenderFailed)), "{action}");
        }
        assert!(takes(Action::RendersCancel, &failed(Code::RenderNotApproved)));
    }

    proptest! {
        #[test]
        fn a_priority_is_set_or_moved_and_never_runs_over(before in any::<i64>(), number in any::<i32>()) {
            prop_assert_eq!(PriorityChange::To(number).of_priority(before), i64::from(number));
            let moved = PriorityChange::By(number).of_priority(before);
            prop_assert_eq!(moved.cmp(&before), if moved == before { std::cmp::Ordering::Equal } else { number.cmp(&0) });
            prop_assert_eq!(PriorityChange::of(Some(number), Some(1)), None);
            prop_assert_eq!(PriorityChange::of(None, Some(number)), Some(PriorityChange::By(number)));
        }
    }
}
