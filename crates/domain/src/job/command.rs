//! Environment variables and exit codes of the programs that steps run.

use super::{ExitStatus, JobParameters};
use std::collections::BTreeMap;

/// Prefix of Tidemill's own variables. They are settings, among them passwords, and are never passed on.
pub const OWN_PREFIX: &str = "TIDEMILL_";

/// Whether a variable is withheld from programs that Tidemill starts: a setting, or a secret.
pub fn is_withheld(variable: &str, is_secret: impl Fn(&str) -> bool) -> bool {
    variable.starts_with(OWN_PREFIX) || is_secret(variable)
}

pub const PARAMETER_PREFIX: &str = "TIDEMILL_PARAM_";

/// Set for every command.
pub const STEP_VARIABLES: [&str; 5] = [
    "TIDEMILL_JOB",
    "TIDEMILL_EXECUTION_ID",
    "TIDEMILL_STEP",
    "TIDEMILL_STEP_EXECUTION_ID",
    "TIDEMILL_RESTART",
];

/// The number of tasks that an application may run at once.
pub const PARALLELISM_VARIABLE: &str = "TIDEMILL_PARALLELISM";
/// The rewritten hint for the application's source.
pub const HINT_VARIABLE: &str = "TIDEMILL_HINT";

/// The granted units. With several pools there is one per pool too, with `_` and the pool's name at the end.
pub const UNITS_VARIABLE: &str = "TIDEMILL_UNITS";
/// The id of the lease. With several pools as [`UNITS_VARIABLE`].
pub const LEASE_VARIABLE: &str = "TIDEMILL_LEASE";

/// The pool whose demand has changed, and whether it grew: for the command `on_demand` of a pool.
pub const POOL_VARIABLE: &str = "TIDEMILL_POOL";
pub const DIRECTION_VARIABLE: &str = "TIDEMILL_DIRECTION";

/// Whether a variable passes a value to a command, so that it is no setting: the command may be Tidemill itself.
pub fn is_step_variable(variable: &str) -> bool {
    let is_or_of_pool = |name: &&str| {
        variable.strip_prefix(*name).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    STEP_VARIABLES.contains(&variable)
        || [PARALLELISM_VARIABLE, HINT_VARIABLE, POOL_VARIABLE, DIRECTION_VARIABLE].contains(&variable)
        || [UNITS_VARIABLE, LEASE_VARIABLE].iter().any(is_or_of_pool)
        || variable.starts_with(PARAMETER_PREFIX)
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandExit {
    /// With this exit code for flows.
    Completed(String),
    Failed(String),
}

impl CommandExit {
    pub fn completed(code: impl Into<String>) -> Self {
        Self::Completed(code.into())
    }

    pub fn failed(code: impl Into<String>) -> Self {
        Self::Failed(code.into())
    }
}

/// The meaning of exit codes. By default 0 is success and all others are failures.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExitCodes {
    meanings: BTreeMap<i32, CommandExit>,
}

impl ExitCodes {
    pub fn set(&mut self, number: i32, meaning: CommandExit) {
        self.meanings.insert(number, meaning);
    }

    pub fn meaning(&self, number: i32) -> CommandExit {
        match self.meanings.get(&number) {
            Some(meaning) => meaning.clone(),
            None if number == 0 => CommandExit::completed(ExitStatus::COMPLETED),
            None => CommandExit::failed(ExitStatus::FAILED),
        }
    }
}

/// The command could see only one of the two parameters.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the parameters {one:?} and {other:?} would both be passed on as {variable}")]
pub struct SameVariable {
    pub one: String,
    pub other: String,
    pub variable: String,
}

/// The variable of a parameter: upper case, with `_` for all that is neither a letter nor a digit.
pub fn variable_of(parameter: &str) -> String {
    let plain = parameter.chars().map(|c| if c.is_alphanumeric() { c } else { '_' });
    PARAMETER_PREFIX.chars().chain(plain.flat_map(char::to_uppercase)).collect()
}

pub fn variables(parameters: &JobParameters) -> Result<BTreeMap<String, String>, SameVariable> {
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    let mut variables = BTreeMap::new();
    for (name, parameter) in parameters.iter() {
        let variable = variable_of(name);
        if let Some(one) = names.insert(variable.clone(), name) {
            return Err(SameVariable { one: one.to_owned(), other: name.to_owned(), variable });
        }
        variables.insert(variable, parameter.value.to_string());
    }
    Ok(variables)
}

/// A line of a program's output for a log or a message: at most `chars_max` characters, without control characters.
pub fn readable(line: &[u8], chars_max: usize) -> String {
    // A character has at most four bytes, so the rest of a long line is not needed.
    let looked_at = &line[..line.len().min(chars_max.saturating_mul(4).saturating_add(4))];
    let text = String::from_utf8_lossy(looked_at);
    let text = text.trim_end_matches(['\n', '\r']);
    let shown = |c: char| match c {
        '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    let mut kept: String = text.chars().take(chars_max).map(shown).collect();
    if text.chars().nth(chars_max).is_some() {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_zero_is_success_unless_said_otherwise() {
        let mut codes = ExitCodes::default();
        codes.set(3, CommandExit::completed("NO_DATA"));
        codes.set(0, CommandExit::failed("NOTHING_DONE"));

        assert_eq!(ExitCodes::default().meaning(0), CommandExit::completed("COMPLETED"));
        assert_eq!(codes.meaning(0), CommandExit::failed("NOTHING_DONE"));
        assert_eq!(codes.meaning(3), CommandExit::completed("NO_DATA"));
        assert_eq!(codes.meaning(4), CommandExit::failed("FAILED"));
    }

    #[test]
    fn parameters_that_would_hide_each_other_are_refused() {
        let parameters = JobParameters::new().with("run.date", "a").with("run_date", "b");

        let refusal = variables(&parameters).unwrap_err();

        assert_eq!(refusal.variable, "TIDEMILL_PARAM_RUN_DATE");
        assert!(refusal.to_string().contains("\"run.date\" and \"run_date\""), "{refusal}");
    }

    #[test]
    fn names_in_any_script_stay_apart() {
        let parameters = JobParameters::new().with("날짜", "2026-11-15").with("지역", "서울");

        let variables = variables(&parameters).unwrap();

        assert_eq!(variables["TIDEMILL_PARAM_날짜"], "2026-11-15");
        assert_eq!(variables.len(), 2);
    }

    #[test]
    fn a_line_is_cut_and_cannot_move_the_cursor() {
        assert_eq!(readable(b"a\tb\x1b[2Jc\r\n", 80), "a b\u{fffd}[2Jc");
        assert_eq!(readable("가나다".as_bytes(), 2), "가나…");
        assert_eq!(readable("가나".as_bytes(), 2), "가나");
        assert_eq!(readable(b"\xff\xfeok", 80), "\u{fffd}\u{fffd}ok");
    }

    proptest! {
        #[test]
        fn a_variable_has_nothing_in_it_that_an_environment_refuses(name in ".{1,100}") {
            let variable = variable_of(&name);
            prop_assert!(is_step_variable(&variable));
            prop_assert!(!variable.contains(['=', '\0']));
        }

        #[test]
        fn every_parameter_arrives_or_all_are_refused(names in prop::collection::btree_set("[a-c._]{1,3}", 1..8)) {
            let parameters = names.iter().fold(JobParameters::new(), |all, name| all.with(name, name.as_str()));
            match variables(&parameters) {
                Ok(variables) => {
                    prop_assert_eq!(variables.len(), names.len());
                    for name in &names {
                        prop_assert_eq!(&variables[&variable_of(name)], name);
                    }
                }
                Err(same) => {
                    prop_assert_ne!(&same.one, &same.other);
                    prop_assert_eq!(variable_of(&same.one), variable_of(&same.other));
                }
            }
        }

        #[test]
        fn any_bytes_become_a_short_line(bytes: Vec<u8>, chars_max in 0..200_usize) {
            let line = readable(&bytes, chars_max);
            prop_assert!(line.chars().count() <= chars_max + 1);
            prop_assert!(!line.chars().any(char::is_control));
        }
    }

    #[test]
    fn a_variable_is_in_upper_case() {
        use crate::job::command::variable_of;
        assert_eq!(variable_of("run.date"), "TIDEMILL_PARAM_RUN_DATE");
    }
}
