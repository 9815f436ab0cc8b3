//! The name of a function, in one of the forms that AWS accepts.
//!
//! ```text
//! name
//! account:function:name
//! arn:partition:lambda:region:account:function:name     each with an optional :qualifier
//! ```

use percent_encoding::percent_decode_str;
use std::str::FromStr;

const NAME_CHARS_MAX: usize = 64;
const QUALIFIER_CHARS_MAX: usize = 128;
const ACCOUNT_DIGITS: usize = 12;

/// Region and account are ignored: Tidemill has neither.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionName {
    name: String,
    qualifier: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadName {
    #[error(
        "the function name is none of name, name:qualifier, account:function:name and \
         arn:partition:lambda:region:account:function:name, of letters, digits, - and _"
    )]
    Form,
    #[error("the qualifier is not 1 to 128 letters, digits, -, _ and $")]
    Qualifier,
    #[error("the qualifier in the function name differs from the one in ?Qualifier=")]
    QualifiersDiffer,
}

impl FunctionName {
    /// Reads a segment of the path, in which the colons of an ARN are percent-encoded.
    ///
    /// ```
    /// # use tidemill_server::lambda::name::FunctionName;
    /// let arn = "arn%3Aaws%3Alambda%3Aeu-west-1%3A123456789012%3Afunction%3Aemr-batch-agent%3Aprod";
    /// let function = FunctionName::from_path(arn).unwrap();
    /// assert_eq!((function.name(), function.qualifier()), ("emr-batch-agent", Some("prod")));
    /// ```
    pub fn from_path(segment: &str) -> Result<Self, BadName> {
        percent_decode_str(segment).decode_utf8().map_err(|_| BadName::Form)?.parse()
    }

    /// Adds the decoded value of `?Qualifier=`. If both have a qualifier, they must be the same.
    pub fn qualified(self, asked: Option<&str>) -> Result<Self, BadName> {
        let Some(asked) = asked.filter(|asked| !asked.is_empty()) else { return Ok(self) };
        if !is_qualifier(asked) {
            return Err(BadName::Qualifier);
        }
        match &self.qualifier {
            Some(named) if named != asked => Err(BadName::QualifiersDiffer),
            _ => Ok(Self { qualifier: Some(asked.to_owned()), ..self }),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The alias or version.
    pub fn qualifier(&self) -> Option<&str> {
        self.qualifier.as_deref()
    }
}

impl FromStr for FunctionName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let parts: Vec<&str> = text.splitn(9, ':').collect();
        let (name, qualifier) = match parts.as_slice() {
            ["arn", partition, "lambda", region, account, "function", rest @ ..]
                if is_word(partition) && is_word(region) && is_account(account) =>
            {
                ending(rest)
            }
            [account, "function", rest @ ..] if is_account(account) && !rest.is_empty() => ending(rest),
            rest => ending(rest),
        }
        .ok_or(BadName::Form)?;
        let is_name = is_word(name) && name.len() <= NAME_CHARS_MAX;
        if !is_name || !qualifier.is_none_or(is_qualifier) {
            return Err(BadName::Form);
        }
        Ok(Self { name: name.to_owned(), qualifier: qualifier.map(str::to_owned) })
    }
}

/// The name and the qualifier.
fn ending<'a>(parts: &[&'a str]) -> Option<(&'a str, Option<&'a str>)> {
    match parts {
        [name] => Some((name, None)),
        [name, qualifier] => Some((name, Some(qualifier))),
        _ => None,
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

fn is_account(text: &str) -> bool {
    text.len() == ACCOUNT_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_qualifier(text: &str) -> bool {
    text == "$LATEST" || (is_word(text) && text.len() <= QUALIFIER_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(segment: &str) -> Result<(String, Option<String>), BadName> {
        FunctionName::from_path(segment).map(|function| (function.name, function.qualifier))
    }

    #[test]
    fn every_form_leads_to_the_same_name() {
        let arn = "arn:aws:lambda:ap-northeast-2:123456789012:function:emr-batch-agent";
        for (form, qualifier) in [
            ("emr-batch-agent", None),
            ("emr-batch-agent:prod", Some("prod")),
            ("emr-batch-agent:$LATEST", Some("$LATEST")),
            ("123456789012:function:emr-batch-agent", None),
            ("123456789012:function:emr-batch-agent:7", Some("7")),
            (arn, None),
            (&format!("{arn}:prod"), Some("prod")),
            (&arn.replace("arn:aws", "arn:aws-cn"), None),
        ] {
            let expected = Ok(("emr-batch-agent".to_owned(), qualifier.map(str::to_owned)));
            let encoded = form.replace(':', "%3A").replace('$', "%24");
            assert_eq!(read(form), expected, "{form}");
            assert_eq!(read(&encoded), expected, "{encoded}");
            assert_eq!(read(&encoded.to_lowercase().replace("latest", "LATEST")), expected, "{encoded}");
        }
    }

    #[test]
    fn what_names_no_function_is_refused() {
        let arn = "arn:aws:lambda:eu-west-1:123456789012:function:f";
        for text in [
            "",
            ":",
            "a:",
            ":a",
            "a:b:c",
            "a.b",
            "a/b",
            "a b",
            "%",
            "%zz",
            "%ff",
            "%253A",
            "함수",
            "f:$OLDEST",
            "12345678901:function:f",
            "123456789012:layer:f",
            "123456789012:function:",
            "123456789012:function:f:p:q",
            &arn.replace("lambda", "s3"),
            &arn.replace("function", "layer"),
            &arn.replace("123456789012", "1234"),
            &arn.replace("aws", ""),
            &format!("{arn}:p:q"),
            &"f".repeat(65),
            &format!("f:{}", "q".repeat(129)),
            &"a:".repeat(100_000),
        ] {
            assert_eq!(read(text), Err(BadName::Form), "{text:.80}");
        }
    }

    #[test]
    fn the_query_may_qualify_but_not_contradict() {
        let named = |name: &str, asked| name.parse::<FunctionName>().unwrap().qualified(asked);

        assert_eq!(named("f", None).unwrap().qualifier(), None);
        assert_eq!(named("f", Some("")).unwrap().qualifier(), None);
        assert_eq!(named("f", Some("prod")).unwrap().qualifier(), Some("prod"));
        assert_eq!(named("f:prod", Some("prod")).unwrap().qualifier(), Some("prod"));
        assert_eq!(named("f:prod", Some("test")), Err(BadName::QualifiersDiffer));
        assert_eq!(named("f", Some("a b")), Err(BadName::Qualifier));
    }

    proptest! {
        #[test]
        fn any_text_is_a_name_or_refused(text in ".{0,80}") {
            if let Ok(function) = FunctionName::from_path(&text) {
                prop_assert!(is_word(function.name()));
            }
        }

        #[test]
        fn any_parts_are_a_name_or_refused(parts in prop::collection::vec("arn|aws|lambda|function|f|\\$LATEST|[0-9]{12}|", 0..10)) {
            if let Ok(function) = parts.join(":").parse::<FunctionName>() {
                prop_assert!(is_word(function.name()) && function.qualifier().is_none_or(is_qualifier));
            }
        }
    }
}
