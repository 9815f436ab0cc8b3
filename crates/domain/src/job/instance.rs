//! Instances of a job: the key that identifies one, and the parameters of the next.
//!
//! The key equals that of Spring Batch 5.0 to 5.2 byte for byte, so both find each other's instances. MD5 is used as a
//! short name, not for security. Spring Batch's incrementer starts from all parameters of the last run; here only the
//! number is carried over.

use super::JobParameters;
use md5::{Digest, Md5};
use std::fmt::Write as _;

/// 32 hexadecimal digits of the identifying parameters.
pub fn job_key(parameters: &JobParameters) -> String {
    md5(&plain_key(parameters))
}

pub(crate) fn md5(text: &str) -> String {
    Md5::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digest's input: each identifying parameter by name, as Java's `toString` writes it.
fn plain_key(parameters: &JobParameters) -> String {
    let mut text = String::new();
    for (name, parameter) in parameters.iter().filter(|(_, parameter)| parameter.is_identifying) {
        let (value, class) = (parameter.value.java_text(), parameter.value.kind().java_class());
        let _infallible = write!(text, "{name}={{value={value}, type=class {class}, identifying=true}};");
    }
    text
}

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
    use crate::job::{JobParameter, ParameterValue};
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn the_keys_are_those_of_spring_batch_5() {
        let given = JobParameters::new().with("input", "a.csv").with("run.id", 1);

        assert_eq!(
            job_key(&given.clone().with_non_identifying("x", "y")),
            "87d5ff9675be3984d6fcbaebb9044ef8"
        );
        assert_eq!(job_key(&given), "87d5ff9675be3984d6fcbaebb9044ef8");
        assert_eq!(job_key(&JobParameters::new()), "d41d8cd98f00b204e9800998ecf8427e");
        let none = JobParameters::new().with_non_identifying("x", "y");
        assert_eq!(job_key(&none), "d41d8cd98f00b204e9800998ecf8427e");
    }

    #[test]
    fn the_text_under_the_digest_has_the_words_of_java_and_not_what_is_stored() {
        let noon = jiff::civil::date(2026, 1, 31).at(12, 0, 0, 0);
        let given = JobParameters::new().with("d", 1.0).with("at", noon);

        let text = plain_key(&given);

        assert_eq!(
            text,
            "at={value=2026-01-31T12:00, type=class java.time.LocalDateTime, identifying=true};\
             d={value=1.0, type=class java.lang.Double, identifying=true};"
        );
        assert_eq!(job_key(&given), "977b1fb7f521690f7a22dc29ab059f7c");
    }

    #[test]
    fn names_are_sorted_by_utf_16_units() {
        // By code points U+FF5E comes first; in UTF-16 the other begins with the smaller unit D83D.
        let text = plain_key(&JobParameters::new().with("\u{ff5e}", 1).with("\u{1f600}", 2));

        assert!(text.starts_with('\u{1f600}'), "{text}");
    }

    fn parameter() -> impl Strategy<Value = (String, JobParameter)> {
        let value = prop_oneof![
            any::<i64>().prop_map(ParameterValue::Long),
            any::<f64>().prop_map(ParameterValue::Double),
            r"[^\x00]{0,8}".prop_map(ParameterValue::Text),
        ];
        ("[a-e\u{ff5e}\u{1f600}]{1,2}", value, any::<bool>())
            .prop_map(|(name, value, is_identifying)| (name, JobParameter { value, is_identifying }))
    }

    fn collect<'a>(parameters: impl IntoIterator<Item = &'a (String, JobParameter)>) -> JobParameters {
        let mut all = JobParameters::new();
        for (name, parameter) in parameters {
            all.insert(name.clone(), parameter.clone()).unwrap();
        }
        all
    }

    proptest! {
        #[test]
        fn the_order_of_insertion_does_not_matter(given in vec(parameter(), 0..8), turn in 0..8_usize) {
            let mut given = given;
            given.sort_by(|(one, _), (other, _)| one.cmp(other));
            given.dedup_by(|(one, _), (other, _)| one == other);
            let key = job_key(&collect(&given));

            let turn = turn.min(given.len());
            given.rotate_left(turn);
            prop_assert_eq!(&job_key(&collect(&given)), &key);
            prop_assert_eq!(&job_key(&collect(given.iter().rev())), &key);
        }

        #[test]
        fn what_does_not_identify_does_not_matter(given in vec(parameter(), 0..8)) {
            let all = collect(&given);
            let mut identifying = JobParameters::new();
            for (name, parameter) in all.iter().filter(|(_, parameter)| parameter.is_identifying) {
                identifying.insert(name, parameter.clone()).unwrap();
            }
            prop_assert_eq!(job_key(&all), job_key(&identifying));
            prop_assert_eq!(job_key(&all).len(), 32);
        }

        #[test]
        fn another_value_or_type_is_another_instance(one: i64, other: i64) {
            let key = |value: ParameterValue| job_key(&JobParameters::new().with("n", value));
            prop_assert_eq!(key(one.into()) == key(other.into()), one == other);
            prop_assert_ne!(key(one.into()), key(one.to_string().into()));
        }
    }

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
        let given = JobParameters::new().with("input", "a.csv");
        let next = next_instance(given.clone(), Some(41)).unwrap();
        assert_eq!(next, given.with("run.id", 42));
    }
}
