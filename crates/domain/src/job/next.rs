//! The next instance of a job: the same parameters with a new number.
//!
//! Spring Batch's incrementer starts from all parameters of the last run. Here only the number is carried over.

use super::JobParameters;

/// The same name as in Spring Batch.
pub const RUN_ID: &str = "run.id";

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoNext {
    #[error("the parameter run.id is given, but the next instance sets it")]
    Given,
    #[error("the greatest possible run.id is used")]
    UsedUp,
}

/// `greatest` is the greatest number of an instance so far.
pub fn next_instance(given: JobParameters, greatest: Option<i64>) -> Result<JobParameters, NoNext> {
    if given.get(RUN_ID).is_some() {
        return Err(NoNext::Given);
    }
    let next = greatest.unwrap_or(0).max(0).checked_add(1).ok_or(NoNext::UsedUp)?;
    Ok(given.with(RUN_ID, next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_is_number_one_and_a_number_that_is_given_is_refused() {
        assert_eq!(next_instance(JobParameters::new(), None), Ok(JobParameters::new().with(RUN_ID, 1)));
        assert_eq!(next_instance(JobParameters::new().with(RUN_ID, 5), None), Err(NoNext::Given));
        assert_eq!(next_instance(JobParameters::new(), Some(i64::MAX)), Err(NoNext::UsedUp));
    }

    proptest! {
        #[test]
        fn the_number_is_greater_than_all_before_and_nothing_else_is_added(greatest in any::<i64>()) {
            prop_assume!(greatest < i64::MAX);
            let next = next_instance(JobParameters::new(), Some(greatest)).unwrap();
            prop_assert_eq!(next.iter().count(), 1);
            prop_assert!(matches!(next.get(RUN_ID).unwrap().value, crate::job::ParameterValue::Long(n) if n > greatest && n > 0));
        }
    }

    #[test]
    fn the_next_instance_has_the_next_number() {
        use crate::job::{JobParameters, next::next_instance};
        let given = JobParameters::new().with("input", "a.csv");
        let next = next_instance(given.clone(), Some(41)).unwrap();
        assert_eq!(next, given.with("run.id", 42));
    }
}
