//! Which values of a parameter are accepted, beside their type: a list, a pattern, and rules for paths and arguments.
//!
//! Users who launch a job choose its values, and may have fewer rights than its author. So a value must not turn
//! `in/${name}.csv` into a file of another folder, nor an argument into an option, unless the author allows it.

use super::value::{ParameterType, ParameterValue};
use regex::{Regex, RegexBuilder};
use std::fmt;

pub const PATTERN_CHARS_MAX: usize = 500;

/// Memory of a compiled pattern.
const PATTERN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// By default all values.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Accepted {
    /// Only these stored texts; empty means any. Listed values are not checked further.
    pub one_of: Vec<String>,
    pub pattern: Option<Pattern>,
    /// It becomes a part of a path, and must not lead to another folder.
    pub is_in_path: bool,
    /// It begins an argument of a program, and must not become an option.
    pub is_argument: bool,
}

/// The messages never contain the value: it may be a secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ValueRefusal {
    #[error("must be one of {allowed}")]
    NotListed { allowed: String },
    #[error("must match the pattern {pattern} as a whole")]
    NotMatching { pattern: String },
    #[error(
        "becomes a part of a path and must not {what}; if it may name any file, write `allow: path` for it in the \
         job file"
    )]
    LeavesFolder { what: &'static str },
    #[error(
        "becomes an argument of a program and must not begin with \"-\"; if it may be an option, write \
         `allow: option` for it in the job file"
    )]
    IsOption,
}

impl Accepted {
    pub fn check(&self, value: &ParameterValue) -> Result<(), ValueRefusal> {
        let text = value.stored_text();
        if self.one_of.contains(&text) {
            return Ok(());
        }
        if !self.one_of.is_empty() {
            return Err(ValueRefusal::NotListed { allowed: self.one_of.join(", ") });
        }
        if let Some(pattern) = &self.pattern
            && !pattern.matches(&text)
        {
            return Err(ValueRefusal::NotMatching { pattern: pattern.to_string() });
        }
        if self.is_in_path
            && let Some(what) = leaves_folder(&text)
        {
            return Err(ValueRefusal::LeavesFolder { what });
        }
        // A number may be negative.
        let is_text = value.kind() == ParameterType::Text;
        if self.is_argument && is_text && text.starts_with('-') {
            return Err(ValueRefusal::IsOption);
        }
        Ok(())
    }
}

/// Why a text cannot be a part of a file name: between any two texts it could lead to another folder.
pub fn leaves_folder(text: &str) -> Option<&'static str> {
    [('/', "contain \"/\""), ('\\', "contain \"\\\""), ('\0', "contain the character NUL")]
        .into_iter()
        .find_map(|(c, what)| text.contains(c).then_some(what))
        .or_else(|| text.contains("..").then_some("contain \"..\""))
        // A dot beside it would make it the parent folder.
        .or_else(|| (text == ".").then_some("be \".\""))
}

/// A regular expression that a whole value has to match.
#[derive(Clone)]
pub struct Pattern {
    text: String,
    whole: Regex,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadPattern {
    #[error("it has {chars} characters; {PATTERN_CHARS_MAX} are allowed")]
    TooLong { chars: usize },
    #[error("it is too large; use smaller numbers of repetitions")]
    TooLarge,
    #[error("it is not a regular expression: {why}")]
    Syntax { why: String },
}

impl Pattern {
    /// Matching takes linear time, whatever the expression.
    pub fn new(text: &str) -> Result<Self, BadPattern> {
        let chars = text.chars().count();
        if chars > PATTERN_CHARS_MAX {
            return Err(BadPattern::TooLong { chars });
        }
        // By itself first: `a)|(b` would compile between the brackets, with another meaning.
        compile(text)?;
        let whole = compile(&format!("^(?:{text})$"))?;
        Ok(Self { text: text.to_owned(), whole })
    }

    pub fn matches(&self, value: &str) -> bool {
        self.whole.is_match(value)
    }
}

fn compile(text: &str) -> Result<Regex, BadPattern> {
    let compiled =
        RegexBuilder::new(text).size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX).build();
    compiled.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => BadPattern::TooLarge,
        // The message shows the pattern first; the last line has the error.
        other => {
            let text = other.to_string();
            let last = text.lines().last().unwrap_or_default();
            BadPattern::Syntax { why: last.trim_start_matches("error: ").to_owned() }
        }
    })
}

crate::newtype::display!(Pattern, pattern => "{}", pattern.text);

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::{Component, Path};

    fn in_path() -> Accepted {
        Accepted { is_in_path: true, ..Accepted::default() }
    }

    #[test]
    fn a_pattern_matches_the_whole_value_and_nothing_less() {
        let check = |pattern: &str, value: &str| Pattern::new(pattern).unwrap().matches(value);

        assert!(check("[a-z]+", "north"));
        assert!(!check("[a-z]+", "north/"));
        assert!(!check("[a-z]+", "north\n"));
        assert!(check("a|ab", "ab"));
        assert!(!check("a|b", "ax"));
        assert!(!check("(?m)a", "a\nb"));
        assert!(check("[가-힣]{1,10}", "서울"));
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_a_reason() {
        let refusal = |text: &str| Pattern::new(text).unwrap_err();

        assert_eq!(refusal(&"a".repeat(501)), BadPattern::TooLong { chars: 501 });
        assert_eq!(refusal("(?:\\w{200}){200}"), BadPattern::TooLarge);
        assert_eq!(refusal("["), BadPattern::Syntax { why: "unclosed character class".into() });
        assert!(matches!(refusal("a)|(b"), BadPattern::Syntax { .. }));
        assert!(matches!(refusal("(?x) a # b"), BadPattern::Syntax { .. }));
    }

    #[test]
    fn a_value_of_the_list_is_the_word_of_the_author_and_any_other_is_refused() {
        let accepted =
            Accepted { one_of: vec!["in/north".into(), "-v".into()], is_argument: true, ..in_path() };

        assert_eq!(accepted.check(&"in/north".into()), Ok(()));
        assert_eq!(accepted.check(&"-v".into()), Ok(()));
        let refusal = accepted.check(&"north".into()).unwrap_err();
        assert_eq!(refusal.to_string(), "must be one of in/north, -v");
    }

    #[test]
    fn a_pattern_does_not_allow_a_path_by_itself() {
        let accepted = Accepted { pattern: Some(Pattern::new(".*").unwrap()), ..in_path() };

        assert!(matches!(accepted.check(&"a/b".into()), Err(ValueRefusal::LeavesFolder { .. })));
        assert_eq!(accepted.check(&"a b".into()), Ok(()));
    }

    #[test]
    fn an_option_is_refused_and_a_negative_number_is_none() {
        let accepted = Accepted { is_argument: true, ..Accepted::default() };

        assert_eq!(accepted.check(&"--delete".into()), Err(ValueRefusal::IsOption));
        assert_eq!(accepted.check(&(-5).into()), Ok(()));
        assert_eq!(accepted.check(&"a-b".into()), Ok(()));
    }

    proptest! {
        #[test]
        fn no_accepted_value_leads_out_of_the_folder_whatever_stands_around_it(
            before in "a?\\.?",
            mut values in prop::collection::vec("[a./\\\\\0-]{0,3}", 1..6),
        ) {
            values.retain(|value| in_path().check(&value.as_str().into()).is_ok());

            let path = format!("in/{before}{}", values.concat());

            let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
            prop_assert!(Path::new(&path).components().all(is_plain), "{}", path);
        }

        #[test]
        fn a_refusal_never_tells_the_value(value in "[a-z]{6,12}/") {
            let refusal = in_path().check(&value.as_str().into()).unwrap_err();
            prop_assert!(!refusal.to_string().contains(&value));
        }

        #[test]
        fn any_text_is_a_pattern_or_is_refused(text in ".{0,40}", value in ".{0,40}") {
            if let Ok(pattern) = Pattern::new(&text) {
                let _either = pattern.matches(&value);
            }
        }
    }

    #[test]
    fn a_pattern_matches_whole_values() {
        use crate::job::parameter::Pattern;
        let region = Pattern::new("north|south").unwrap();
        assert!(region.matches("north") && !region.matches("northern"));
    }

    #[test]
    fn a_date_stays_in_its_folder_and_a_path_does_not() {
        assert_eq!(leaves_folder("2026-11-15"), None);
        assert_eq!(leaves_folder("../secret"), Some("contain \"/\""));
    }
}
