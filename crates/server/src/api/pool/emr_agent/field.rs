//! Fields of a request of the EMR Batch Agent API. A number may be a string of digits, because templates turn
//! everything into strings, and null counts as missing.

use crate::problem::Problem;
use serde_json::{Map, Number, Value};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Largest whole number that a double holds exactly.
const DOUBLE_WHOLE_MAX: f64 = 9_007_199_254_740_991.0;

/// An invalid field. The message has its name but not its value, which may be long or secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: {why}")]
pub struct BadField {
    /// The name of the field, with the objects around it.
    pub(super) field: String,
    why: String,
}

impl BadField {
    pub(crate) fn new(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self { field: field.into(), why: why.into() }
    }
}

impl From<BadField> for Problem {
    fn from(error: BadField) -> Self {
        Self::bad_request(error.to_string(), "correct the field")
    }
}

#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    /// Prefix of a name in messages.
    place: String,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(super) fn of(request: &'a Value) -> Result<Self, BadField> {
        match request {
            Value::Object(map) => Ok(Self { place: String::new(), map }),
            _ => Err(BadField::new("request", "it is not a JSON object")),
        }
    }

    pub(super) fn object(&self, name: &str) -> Result<Option<Self>, BadField> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Self { place: format!("{}{name}.", self.place), map })),
            Some(_) => Err(self.bad(name, "it is not an object")),
        }
    }

    /// A name on one line, such as that of a DAG. An empty one counts as missing.
    pub(super) fn text(&self, name: &str, chars_max: usize) -> Result<Option<String>, BadField> {
        self.written(name, chars_max, char::is_control, "control characters")
    }

    /// A text that may have several lines. Only NUL is refused, which no database can store.
    pub(super) fn long_text(&self, name: &str, chars_max: usize) -> Result<Option<String>, BadField> {
        self.written(name, chars_max, |char| char == '\0', "a NUL character")
    }

    fn written(
        &self,
        name: &str,
        chars_max: usize,
        is_refused: impl Fn(char) -> bool,
        refused: &str,
    ) -> Result<Option<String>, BadField> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) if text.chars().nth(chars_max).is_some() => {
                Err(self.bad(name, format!("it is longer than {chars_max} characters")))
            }
            Some(Value::String(text)) if text.contains(is_refused) => {
                Err(self.bad(name, format!("it has {refused}")))
            }
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(self.bad(name, "it is not a text")),
        }
    }

    /// A whole number, or a string of digits.
    pub(super) fn number(&self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>, BadField> {
        let read = match self.get(name) {
            None => return Ok(None),
            Some(Value::Number(number)) => whole(number),
            Some(Value::String(text)) => digits(text),
            Some(_) => None,
        };
        match read.filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let (least, most) = (range.start(), range.end());
                Err(self.bad(name, format!("it is not a whole number from {least} to {most}")))
            }
        }
    }

    pub(super) fn word<T: FromStr>(&self, name: &str, words: &[&str]) -> Result<Option<T>, BadField> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let word = value.as_str().and_then(|text| text.parse().ok());
        word.map(Some).ok_or_else(|| self.bad(name, format!("it is none of {}", words.join(", "))))
    }

    pub(super) fn bad(&self, name: &str, why: impl Into<String>) -> BadField {
        BadField::new(format!("{}{name}", self.place), why)
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }
}

/// Also takes `4.0`: some languages have only one type of number.
fn whole(number: &Number) -> Option<i64> {
    let double = |number: &f64| number.fract() == 0.0 && number.abs() <= DOUBLE_WHOLE_MAX;
    number.as_i64().or_else(|| number.as_f64().filter(double).map(|number| number as i64))
}

/// Takes `"4"`, but not `" 4 "`, `"+4"` or `"04"`: a number must have only one spelling.
fn digits(text: &str) -> Option<i64> {
    text.parse::<i64>().ok().filter(|number| number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use tidemill_domain::pool::Class;

    fn number(value: Value) -> Option<i64> {
        Fields::of(&json!({ "n": value })).unwrap().number("n", -1..=100).unwrap_or(Some(-100))
    }

    #[test]
    fn a_number_is_a_number_or_its_digits() {
        for value in [json!(4), json!("4"), json!(4.0)] {
            assert_eq!(number(value.clone()), Some(4), "{value}");
        }
        assert_eq!(number(json!("-1")), Some(-1));
        assert_eq!(number(json!(null)), None);
        for wrong in [
            json!(" 4 "),
            json!("4 "),
            json!("+4"),
            json!("04"),
            json!("-0"),
            json!("4.0"),
            json!("0x4"),
            json!("٤"),
            json!(""),
            json!("None"),
            json!(4.5),
            json!(101),
            json!("101"),
            json!(-2),
            json!(true),
            json!([4]),
            json!({}),
            json!(u64::MAX),
            json!(1e300),
            json!("99999999999999999999"),
        ] {
            assert_eq!(number(wrong.clone()), Some(-100), "{wrong}");
        }
    }

    #[test]
    fn texts_are_bounded_and_plain() {
        let read = |value: Value| Fields::of(&json!({ "t": value })).unwrap().text("t", 3);
        let long = |value: Value| Fields::of(&json!({ "t": value })).unwrap().long_text("t", 3);

        assert_eq!(read(json!("정산표")), Ok(Some("정산표".to_owned())));
        assert_eq!((read(json!("")), read(json!(null))), (Ok(None), Ok(None)));
        assert_eq!(long(json!("a\nb")), Ok(Some("a\nb".to_owned())));
        for wrong in [json!("abcd"), json!("a\u{0}"), json!("a\nb"), json!(7), json!(["a"])] {
            assert_eq!(read(wrong).unwrap_err().field, "t");
        }
        assert!(long(json!("a\u{0}")).is_err() && long(json!("abcd")).is_err());
    }

    #[test]
    fn a_message_tells_the_whole_place_and_not_the_value() {
        let request = json!({ "a": { "b": "s3cret" }, "c": "s3cret" });
        let fields = Fields::of(&request).unwrap();
        let inner = fields.object("a").unwrap().unwrap();

        assert_eq!(
            inner.number("b", 1..=2).unwrap_err().to_string(),
            "a.b: it is not a whole number from 1 to 2"
        );
        let word = fields.word::<Class>("c", Class::NAMES);
        assert_eq!(word.unwrap_err().to_string(), "c: it is none of critical, normal, bulk");
        assert_eq!(fields.object("c").unwrap_err().to_string(), "c: it is not an object");
    }

    proptest! {
        #[test]
        fn a_number_and_its_digits_are_the_same(number in -1_i64..=100) {
            prop_assert_eq!(super::tests::number(json!(number)), Some(number));
            prop_assert_eq!(super::tests::number(json!(number.to_string())), Some(number));
        }
    }
}
