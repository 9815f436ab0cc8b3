//! Parameters on a command line: `name=value`, `name=value,type` or `name=value,type,identifying`.
//!
//! Spring Batch splits at every comma, so its values cannot contain one. Here the last part is the type only if it is
//! exactly a type (a word of ours or a Java class), and the last two are type and identity only if they are exactly a
//! type and `true` or `false`. Everything before that is the value: `name=a,b` has the value `a,b`. If a value itself
//! ends in such words, add the type: `name=a,long,string` has the value `a,long`.

use super::rule::ParameterSpec;
use super::value::ParameterType;
use super::{JobParameter, JobParameters, ParameterError, check_limits};

/// Reads one argument. Missing parts come from the spec of that name; without a spec it is an identifying text.
///
/// ```
/// # use tidemill_domain::job::parameter::{JobParameter, parse_argument_for};
/// let (name, parameter) = parse_argument_for("run.id=7,long,false", &[]).unwrap();
/// assert_eq!((name.as_str(), parameter), ("run.id", JobParameter::non_identifying(7)));
/// assert_eq!(parse_argument_for("files=a,b", &[]).unwrap().1, JobParameter::identifying("a,b"));
/// ```
pub fn parse_argument_for(
    argument: &str,
    specs: &[ParameterSpec],
) -> Result<(String, JobParameter), ParameterError> {
    let (name, rest) = argument.split_once('=').ok_or(ParameterError::NoEqualsSign)?;
    let (text, kind, is_identifying) = split(rest);
    let spec = specs.iter().find(|spec| spec.name == name);
    let kind = kind.or(spec.map(|spec| spec.kind)).unwrap_or(ParameterType::Text);
    let is_identifying = is_identifying.or(spec.map(|spec| spec.is_identifying)).unwrap_or(true);
    let value =
        kind.read(text).map_err(|_| ParameterError::NotOfType { name: name.to_owned(), wanted: kind })?;
    check_limits(name, &value)?;
    Ok((name.to_owned(), JobParameter { value, is_identifying }))
}

/// Reads all arguments with [`parse_argument_for`]. A name may occur only once.
pub fn parse_arguments<'a>(
    arguments: impl IntoIterator<Item = &'a str>,
    specs: &[ParameterSpec],
) -> Result<JobParameters, ParameterError> {
    let mut parameters = JobParameters::new();
    for argument in arguments {
        let (name, parameter) = parse_argument_for(argument, specs)?;
        if parameters.get(&name).is_some() {
            return Err(ParameterError::Repeated { name });
        }
        parameters.insert(name, parameter)?;
    }
    Ok(parameters)
}

/// The value, and the type and identity at its end.
fn split(rest: &str) -> (&str, Option<ParameterType>, Option<bool>) {
    let with_type =
        |text: &str| text.rsplit_once(',').and_then(|(_, last)| last.parse::<ParameterType>().ok());
    let value_of = |text| str::rsplit_once(text, ',').map_or(text, |(value, _)| value);
    if let Some((before, last)) = rest.rsplit_once(',')
        && let Ok(is_identifying) = last.parse::<bool>()
        && let Some(kind) = with_type(before)
    {
        return (value_of(before), Some(kind), Some(is_identifying));
    }
    match with_type(rest) {
        Some(kind) => (value_of(rest), Some(kind), None),
        None => (rest, None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::ParameterValue;
    use proptest::prelude::*;

    fn parse_argument(argument: &str) -> Result<(String, JobParameter), ParameterError> {
        parse_argument_for(argument, &[])
    }

    fn check(argument: &str, value: impl Into<ParameterValue>, is_identifying: bool) {
        let (name, parameter) = parse_argument(argument).unwrap();

        assert_eq!(name, "name", "{argument}");
        assert_eq!(parameter, JobParameter { value: value.into(), is_identifying }, "{argument}");
    }

    #[test]
    fn type_and_identity_are_read_from_the_end_and_only_if_they_are_exactly_that() {
        check("name=value", "value", true);
        check("name=", "", true);
        check("name=a=b", "a=b", true);
        check("name=a,b", "a,b", true);
        check("name=a,b,", "a,b,", true);
        check("name=long", "long", true);
        check("name=true", "true", true);
        check("name=a,true", "a,true", true);
        check("name=a,Long", "a,Long", true);
        check("name=a,string,True", "a,string,True", true);
        check("name=a,b,string", "a,b", true);
        check("name=a,long,string", "a,long", true);
        check("name=a,long,true,string,true", "a,long,true", true);
        check("name=a,string,false", "a", false);
        check("name=,string", "", true);
        check("name=-7,long", -7, true);
        check("name=7,java.lang.Long,false", 7, false);
        check("name=1e3,double", 1000.0, true);
        check("name=2026-01-31,date", jiff::civil::date(2026, 1, 31), true);
        check("name=23:59,time", jiff::civil::time(23, 59, 0, 0), true);
        check("name=2026-01-31T23:59,datetime", jiff::civil::date(2026, 1, 31).at(23, 59, 0, 0), true);
    }

    #[test]
    fn an_argument_out_of_bounds_is_refused_with_its_name_and_without_its_value() {
        let refusal = |argument: &str| parse_argument(argument).unwrap_err();
        let named = |name: &str| name.to_owned();

        assert_eq!(refusal("name"), ParameterError::NoEqualsSign);
        assert_eq!(refusal("=value"), ParameterError::NameEmpty);
        assert_eq!(refusal("n=a\0"), ParameterError::Nul { name: named("n") });
        assert_eq!(refusal(&format!("{}=v", "n".repeat(101))), ParameterError::NameTooLong { chars: 101 });
        let long = format!("n={}", "가".repeat(2501));
        assert_eq!(refusal(&long), ParameterError::ValueTooLong { name: named("n"), chars: 2501 });
        assert!(parse_argument(&format!("{}={}", "가".repeat(100), "가".repeat(2500))).is_ok());
        let secret = refusal("n=s3cret,long");
        assert_eq!(secret, ParameterError::NotOfType { name: named("n"), wanted: ParameterType::Long });
        assert!(!secret.to_string().contains("s3cret"));
    }

    #[test]
    fn what_an_argument_does_not_say_is_taken_from_what_the_job_asks_for() {
        let specs = [ParameterSpec {
            name: "day".into(),
            kind: ParameterType::Date,
            is_required: true,
            is_identifying: false,
            accepted: Default::default(),
        }];

        let read = |argument| parse_argument_for(argument, &specs).map(|(_, parameter)| parameter);

        let day = jiff::civil::date(2026, 1, 31);
        assert_eq!(read("day=2026-01-31"), Ok(JobParameter::non_identifying(day)));
        assert_eq!(read("day=2026-01-31,date,true"), Ok(JobParameter::identifying(day)));
        assert_eq!(read("day=2026-01-31,string"), Ok(JobParameter::non_identifying("2026-01-31")));
        assert_eq!(read("other=2026-01-31"), Ok(JobParameter::identifying("2026-01-31")));
        assert!(read("day=tomorrow").is_err());
    }

    #[test]
    fn a_name_that_is_given_twice_is_refused() {
        let twice = parse_arguments(["a=1", "b=2", "a=3"], &[]);

        assert_eq!(twice, Err(ParameterError::Repeated { name: "a".into() }));
        assert_eq!(
            parse_arguments(["b=2", "a=1"], &[]),
            Ok(JobParameters::new().with("a", "1").with("b", "2"))
        );
    }

    proptest! {
        #[test]
        fn any_text_can_be_given_when_its_type_is_named(
            text in r"[a-z0-9,=]{0,12}(,(long|string|true|false|java\.lang\.Long)){0,3}",
            is_identifying: bool,
        ) {
            let (name, parameter) = parse_argument(&format!("n={text},string,{is_identifying}")).unwrap();
            prop_assert_eq!(name, "n");
            prop_assert_eq!(parameter, JobParameter { value: text.into(), is_identifying });
        }

        #[test]
        fn no_argument_is_too_strange_for_an_answer(argument in any::<String>()) {
            if let Ok((name, _)) = parse_argument(&argument) {
                prop_assert!(argument.starts_with(&name));
            }
        }
    }
}
