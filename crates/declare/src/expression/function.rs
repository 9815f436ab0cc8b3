//! The functions of the language: those of CEL, and ours.

use super::decimal;
use cel::common::ast::CallExpr;
use cel::common::types::{CelBytes, CelDouble, CelInt, CelList, CelNull, CelString, CelTimestamp, DYN_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{Env, ExecutionError};
use jiff::civil::Date;
use sha2::{Digest, Sha256};
use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock};
use tidemill_domain::nearest::nearest;

const TEXT_MAX: usize = 1024 * 1024;

const LIST_MAX: usize = 4096;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    pub name: &'static str,
    pub usage: &'static str,
    pub purpose: &'static str,
    form: Form,
    /// Minimum and maximum number of arguments, including the one before the dot.
    arguments: RangeInclusive<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// `f(x)`.
    Plain,
    /// `x.f()`.
    Member,
    Either,
    /// Expanded by the parser: a call that is left has the wrong arguments.
    Macro,
}

macro_rules! functions {
    ($($name:literal $form:ident $least:literal..=$most:literal $usage:literal $purpose:literal;)+) => {
        &[$(Function {
            name: $name,
            usage: $usage,
            purpose: $purpose,
            form: Form::$form,
            arguments: $least..=$most,
        },)+]
    };
}

/// The guide shows the same table.
pub const FUNCTIONS: &[Function] = functions! {
    "decimal" Either 2..=2 "decimal(text, digits)" "a decimal number as a whole one, exactly: `decimal('19.99', 2)` is 1999; a number that would lose digits is refused";
    "date" Either 1..=2 "date(text)` or `date(text, format)" "a day as `2026-11-15`, read as such or by a format: `date('15.11.2026', '%d.%m.%Y')`";
    "coalesce" Either 2..=2 "coalesce(a, b)" "a, unless it is null; then b";
    "upper" Either 1..=1 "upper(text)" "in capital letters";
    "lower" Either 1..=1 "lower(text)" "in small letters";
    "trim" Either 1..=1 "trim(text)" "without blanks at both ends";
    "replace" Either 3..=3 "replace(text, what, by)" "each occurrence replaced";
    "split" Either 2..=2 "split(text, by)" "a list of the parts";
    "sha256" Either 1..=1 "sha256(text)" "its SHA-256, in hexadecimal digits";
    "int" Plain 1..=1 "int(x)" "a whole number of a text, a number or a timestamp (seconds)";
    "uint" Plain 1..=1 "uint(x)" "a whole number that is not negative";
    "double" Plain 1..=1 "double(x)" "a floating-point number; not for money";
    "string" Plain 1..=1 "string(x)" "a text";
    "bool" Plain 1..=1 "bool(x)" "true or false of a text";
    "bytes" Plain 1..=1 "bytes(text)" "its UTF-8 bytes";
    "timestamp" Plain 1..=1 "timestamp(text)" "an instant: `timestamp('2026-11-15T09:30:00Z')`";
    "duration" Plain 1..=1 "duration(text)" "a span of time: `duration('90m')`";
    "type" Plain 1..=1 "type(x)" "its type: `type(row.a) == int`";
    "dyn" Plain 1..=1 "dyn(x)" "x itself";
    "size" Either 1..=1 "size(x)" "characters of a text, bytes, or elements of a list or map";
    "matches" Either 2..=2 "text.matches(pattern)" "whether the regular expression is found in it";
    "contains" Member 2..=2 "text.contains(part)" "whether the text contains the part";
    "startsWith" Member 2..=2 "text.startsWith(part)" "whether the text begins with the part";
    "endsWith" Member 2..=2 "text.endsWith(part)" "whether the text ends with the part";
    "getFullYear" Member 1..=2 "t.getFullYear()` or `t.getFullYear('Asia/Seoul')" "the year of a timestamp";
    "getMonth" Member 1..=2 "t.getMonth()" "its month, from 0";
    "getDate" Member 1..=2 "t.getDate()" "its day of the month, from 1";
    "getDayOfMonth" Member 1..=2 "t.getDayOfMonth()" "its day of the month, from 0";
    "getDayOfWeek" Member 1..=2 "t.getDayOfWeek()" "its day of the week, Sunday is 0";
    "getDayOfYear" Member 1..=2 "t.getDayOfYear()" "its day of the year, from 0";
    "getHours" Member 1..=2 "t.getHours()" "its hour; also of a duration";
    "getMinutes" Member 1..=2 "t.getMinutes()" "its minute; also of a duration";
    "getSeconds" Member 1..=2 "t.getSeconds()" "its second; also of a duration";
    "getMilliseconds" Member 1..=2 "t.getMilliseconds()" "its milliseconds; also of a duration";
    "has" Macro 1..=1 "has(row.column)" "whether there is such a column";
    "all" Macro 3..=3 "list.all(x, condition)" "whether the condition holds for each x";
    "exists" Macro 3..=3 "list.exists(x, condition)" "whether the condition holds for at least one x";
    "exists_one" Macro 3..=3 "list.exists_one(x, condition)" "whether it holds for exactly one";
    "map" Macro 3..=4 "list.map(x, value)" "a list of the values";
    "filter" Macro 3..=3 "list.filter(x, condition)" "the elements for which the condition holds";
};

/// Whether it names a type, not a variable.
pub(super) fn is_type(name: &str) -> bool {
    matches!(
        name,
        "bool"
            | "bytes"
            | "double"
            | "duration"
            | "google"
            | "int"
            | "list"
            | "map"
            | "null_type"
            | "string"
            | "timestamp"
            | "type"
            | "uint"
    )
}

pub(super) fn check(call: &CallExpr) -> Result<(), String> {
    let name = call.func_name.as_str();
    let Some(function) = FUNCTIONS.iter().find(|function| function.name == name) else {
        let nearest = nearest(name, FUNCTIONS.iter().map(|function| function.name))
            .map_or_else(String::new, |known| format!("; did you mean {known}?"));
        return Err(format!("there is no function {name}{nearest}"));
    };
    let given = call.args.len() + usize::from(call.target.is_some());
    let is_form = match function.form {
        Form::Plain => call.target.is_none(),
        Form::Member => call.target.is_some(),
        Form::Either => true,
        Form::Macro => false,
    };
    if is_form && function.arguments.contains(&given) {
        return Ok(());
    }
    Err(format!("{name} is called as `{}`", function.usage))
}

pub(super) fn environment() -> Arc<Env> {
    static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(extended()));
    Arc::clone(&ENVIRONMENT)
}

fn extended() -> Env {
    let mut env = Env::stdlib().with_optional_support(false);
    for (name, arguments, run) in OURS {
        // Types are checked when it is called, so that the error can name the actual type.
        let any = |count: usize| std::iter::repeat_with(|| DYN_TYPE).take(count).collect();
        env.add_overload(name, &format!("{name}_{arguments}"), any(*arguments), *run)
            .and_then(|()| {
                let id = format!("{name}_{arguments}_of");
                env.add_member_overload(name, &id, DYN_TYPE, any(arguments - 1), *run)
            })
            .expect("our functions have names of their own");
    }
    env
}

type Run = cel::common::functions::Function;

const OURS: &[(&str, usize, Run)] = &[
    ("decimal", 2, decimal),
    ("date", 1, date),
    ("date", 2, date_by_format),
    ("coalesce", 2, |mut given| {
        let index = usize::from(given[0].downcast_ref::<CelNull>().is_some());
        Ok(given.swap_remove(index))
    }),
    ("upper", 1, |given| Ok(owned(text("upper", &given[0])?.to_uppercase()))),
    ("lower", 1, |given| Ok(owned(text("lower", &given[0])?.to_lowercase()))),
    ("trim", 1, |given| Ok(owned(text("trim", &given[0])?.trim().to_owned()))),
    ("replace", 3, replace),
    ("split", 2, split),
    ("sha256", 1, sha256),
];

type Answer<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

fn decimal<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    let Some(digits) = arguments[1].downcast_ref::<CelInt>() else {
        return Err(wrong("decimal", "the number of digits has to be an int", &arguments[1]));
    };
    let number = if let Some(number) = arguments[0].downcast_ref::<CelInt>() {
        number.inner().to_string()
    } else if let Some(number) = arguments[0].downcast_ref::<CelDouble>() {
        decimal::text_of(*number.inner()).map_err(|why| failed("decimal", why))?
    } else {
        text("decimal", &arguments[0])?.to_owned()
    };
    let scaled = decimal::scaled(&number, *digits.inner()).map_err(|why| failed("decimal", &why))?;
    Ok(CowVal::owned(CelInt::from(scaled)))
}

fn date<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    if let Some(instant) = arguments[0].downcast_ref::<CelTimestamp>() {
        return Ok(owned(instant.inner().naive_utc().date().to_string()));
    }
    let text = text("date", &arguments[0])?;
    match text.parse::<Date>() {
        Ok(day) => Ok(owned(day.to_string())),
        Err(_) => Err(failed("date", &format!("{:?} is not a day such as 2026-11-15", shown(text)))),
    }
}

fn date_by_format<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    let (text, format) = (text("date", &arguments[0])?, text("date", &arguments[1])?);
    let day = Date::strptime(format, text).map_err(|error| {
        failed("date", &format!("{:?} is not of the form {format:?}: {error}", shown(text)))
    })?;
    Ok(owned(day.to_string()))
}

fn replace<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    let [whole, what, by] = [0, 1, 2].map(|index| text("replace", &arguments[index]));
    let (whole, what, by) = (whole?, what?, by?);
    if what.is_empty() {
        return Err(failed("replace", "what is to be replaced has to have a character at least"));
    }
    let count = whole.matches(what).count();
    if whole.len() + count.saturating_mul(by.len()) > TEXT_MAX {
        return Err(failed("replace", &format!("the text would be longer than {TEXT_MAX} bytes")));
    }
    Ok(owned(whole.replace(what, by)))
}

fn split<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    let (whole, by) = (text("split", &arguments[0])?, text("split", &arguments[1])?);
    if by.is_empty() {
        return Err(failed("split", "what it is split by has to have a character at least"));
    }
    let parts: Vec<Box<dyn Val>> = whole
        .split(by)
        .take(LIST_MAX + 1)
        .map(|part| Box::new(CelString::from(part.to_owned())) as Box<dyn Val>)
        .collect();
    if parts.len() > LIST_MAX {
        return Err(failed("split", &format!("there would be more than {LIST_MAX} parts")));
    }
    Ok(CowVal::owned(CelList::from(parts)))
}

fn sha256<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    let digest = match arguments[0].downcast_ref::<CelBytes<'_>>() {
        Some(bytes) => Sha256::digest(bytes.inner()),
        None => Sha256::digest(text("sha256", &arguments[0])?),
    };
    Ok(owned(digest.iter().map(|byte| format!("{byte:02x}")).collect()))
}

fn owned<'b, 'v>(text: String) -> CowVal<'b, 'v> {
    CowVal::owned(CelString::from(text))
}

fn text<'a>(function: &str, value: &'a CowVal<'_, '_>) -> Result<&'a str, ExecutionError> {
    match value.downcast_ref::<CelString<'_>>() {
        Some(text) => Ok(text.inner()),
        None => Err(wrong(function, "it takes a text", value)),
    }
}

fn wrong(function: &str, wanted: &str, found: &CowVal<'_, '_>) -> ExecutionError {
    let (word, hint) = match found.get_type().name() {
        "null_type" => ("null", "; coalesce(…, other) gives another value for null"),
        "google.protobuf.Timestamp" => ("timestamp", ""),
        "int" => ("int", "; string(…) makes a text of it"),
        word => (word, ""),
    };
    failed(function, &format!("{wanted}, found {word}{hint}"))
}

fn failed(function: &str, message: &str) -> ExecutionError {
    ExecutionError::function_error(function, message)
}

fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}
