//! How an execution ended, for flows to match on: a code and a description.

use std::cmp::Ordering;

/// Unlike a status, the code may be any text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExitStatus {
    /// Flows match on it.
    pub code: String,
    /// For a failure, its reason.
    pub description: String,
}

impl ExitStatus {
    pub const EXECUTING: &str = "EXECUTING";
    pub const COMPLETED: &str = "COMPLETED";
    /// There was nothing to do.
    pub const NOOP: &str = "NOOP";
    pub const STOPPED: &str = "STOPPED";
    pub const FAILED: &str = "FAILED";
    /// The end is unknown, or has not come.
    pub const UNKNOWN: &str = "UNKNOWN";

    pub fn new(code: impl Into<String>) -> Self {
        Self { code: code.into(), description: String::new() }
    }

    pub fn completed() -> Self {
        Self::new(Self::COMPLETED)
    }

    pub fn failed(reason: impl Into<String>) -> Self {
        Self::new(Self::FAILED).describe(reason)
    }

    #[must_use]
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        let description = description.into();
        if self.description.is_empty() {
            self.description = description;
        } else if !description.is_empty() && self.description != description {
            self.description.push_str(&format!("; {description}"));
        }
        self
    }

    /// Combines two: the more severe code wins, of equally severe ones the later in the alphabet; descriptions are joined.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let order = severity(&self.code)
            .cmp(&severity(&other.code))
            .then_with(|| utf16_order(&self.code, &other.code));
        let code = if order == Ordering::Less { other.code } else { self.code };
        Self { code, description: self.description }.describe(other.description)
    }
}

/// By the prefix of the code; custom codes are the most severe.
fn severity(code: &str) -> usize {
    const KNOWN: [&str; 6] = [
        ExitStatus::EXECUTING,
        ExitStatus::COMPLETED,
        ExitStatus::NOOP,
        ExitStatus::STOPPED,
        ExitStatus::FAILED,
        ExitStatus::UNKNOWN,
    ];
    KNOWN.iter().position(|prefix| code.starts_with(prefix)).unwrap_or(KNOWN.len())
}

/// Java compares texts by UTF-16 units.
pub(crate) fn utf16_order(one: &str, other: &str) -> Ordering {
    one.encode_utf16().cmp(other.encode_utf16())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn code() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("EXECUTING".to_owned()),
            Just("COMPLETED".to_owned()),
            Just("COMPLETED WITH SKIPS".to_owned()),
            Just("NOOP".to_owned()),
            Just("STOPPED".to_owned()),
            Just("FAILED".to_owned()),
            Just("UNKNOWN".to_owned()),
            "[A-Z]{1,8}",
        ]
    }

    #[test]
    fn a_custom_code_wins_and_completed_cannot_hide_a_failure() {
        let and = |one: &str, other: &str| ExitStatus::new(one).and(ExitStatus::new(other)).code;

        assert_eq!(and("FAILED", "COMPLETED"), "FAILED");
        assert_eq!(and("COMPLETED", "COMPLETED WITH SKIPS"), "COMPLETED WITH SKIPS");
        assert_eq!(and("FAILED", "CUSTOM"), "CUSTOM");
        assert_eq!(and("STOPPED", "NOOP"), "STOPPED");
    }

    #[test]
    fn descriptions_are_joined_and_not_repeated() {
        let both = ExitStatus::failed("a").and(ExitStatus::failed("b")).and(ExitStatus::new("FAILED"));

        assert_eq!(both.description, "a; b");
        assert_eq!(ExitStatus::failed("a").and(ExitStatus::failed("a")).description, "a");
    }

    proptest! {
        #[test]
        fn the_code_of_both_does_not_depend_on_the_order(one in code(), other in code()) {
            let forth = ExitStatus::new(&*one).and(ExitStatus::new(&*other)).code;
            let back = ExitStatus::new(&*other).and(ExitStatus::new(&*one)).code;
            prop_assert_eq!(&forth, &back);
            prop_assert!(severity(&forth) >= severity(&one).max(severity(&other)));
        }
    }
}
