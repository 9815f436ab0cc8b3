//! The values that a downgrade tries: what was asked for, halved again and again, and at the end the least itself. Never
//! less than that, and never zero, because there is no such value.

use std::num::NonZeroU32;

/// What to try, the largest first.
///
/// ```
/// # use std::num::NonZeroU32;
/// # use tidemill_domain::pool::downgrade_steps::downgrade_steps;
/// let some = |number| NonZeroU32::new(number).unwrap();
/// let steps: Vec<u32> = downgrade_steps(some(25), some(2)).map(NonZeroU32::get).collect();
/// assert_eq!(steps, [25, 12, 6, 3, 2]);
/// ```
pub fn downgrade_steps(asked: NonZeroU32, least: NonZeroU32) -> impl Iterator<Item = NonZeroU32> {
    let least = least.min(asked);
    std::iter::successors(Some(asked), move |step| {
        if *step == least {
            return None;
        }
        let half = NonZeroU32::new(step.get() / 2).unwrap_or(least);
        Some(half.max(least))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn steps(asked: u32, least: u32) -> Vec<u32> {
        let some = |number| NonZeroU32::new(number).unwrap();
        downgrade_steps(some(asked), some(least)).map(NonZeroU32::get).collect()
    }

    #[test]
    fn the_documents_mistakes_are_not_made() {
        assert_eq!(steps(8, 2), [8, 4, 2], "not 1");
        assert_eq!(steps(3, 2), [3, 2], "2 is tried");
        assert_eq!(steps(1, 1), [1], "not 0");
        assert_eq!(steps(2, 8), [2], "less than the least was asked for");
    }

    proptest! {
        #[test]
        fn it_falls_from_what_was_asked_to_the_least(asked in 1_u32.., least in 1_u32..) {
            let steps = steps(asked, least);

            prop_assert_eq!(steps.first(), Some(&asked));
            prop_assert_eq!(steps.last(), Some(&least.min(asked)));
            prop_assert!(steps.windows(2).all(|pair| pair[0] > pair[1]));
            prop_assert!(steps.len() <= 34);
        }
    }
}
