//! Reads `gfx_data`. `slot_number` identifies a slot, not its index, so that no name appears at another seat.

use super::field::{Field, NUMBER_MAX};
use crate::nearest::nearest;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

pub const GFX_BYTES_MAX: usize = 5_000_000;

/// A misspelt key would be an empty graphic, so no others are accepted.
const KEYS: [&str; 5] = ["composition_name", "slots", "single_fields", "flags", "flag_fields"];
const SLOT_KEYS: [&str; 2] = ["slot_number", "fields"];

/// From here on not every whole number is a different one when it is read.
const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GfxData {
    pub composition: Option<String>,
    pub slots: BTreeSet<u16>,
    /// None where the data has null.
    pub fields: BTreeMap<Field, Option<String>>,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadGfx {
    #[error("the data has {bytes} bytes; {GFX_BYTES_MAX} are allowed")]
    TooLarge { bytes: usize },
    #[error("the data is not JSON: {why}")]
    NotJson { why: String },
    #[error("{}", problems.join("; "))]
    Malformed { problems: Vec<String> },
}

crate::code::coded!(BadGfx {
    TooLarge => RenderDataTooLarge;
    NotJson | Malformed => BadRenderData;
});

/// The length of [`GfxData::preview`], in characters.
const PREVIEW_CHARS_MAX: usize = 120;

impl GfxData {
    /// What the graphic shows, in one line: the single texts, then the texts of each slot. Images are left out.
    pub fn preview(&self) -> String {
        let mut groups: BTreeMap<Option<u16>, Vec<&str>> = BTreeMap::new();
        for (field, text) in &self.fields {
            let group = match field {
                Field::Single { .. } => None,
                Field::Slot { number, .. } => Some(*number),
                Field::Flag { .. } => continue,
            };
            let text = text.as_deref().map(str::trim).filter(|text| !text.is_empty());
            groups.entry(group).or_default().extend(text);
        }
        let groups = groups.into_values().filter(|texts| !texts.is_empty());
        let all = groups.map(|texts| texts.join(", ")).collect::<Vec<_>>().join(" · ");
        let mut letters = all.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
        let start: String = letters.by_ref().take(PREVIEW_CHARS_MAX).collect();
        if letters.next().is_some() { format!("{start}…") } else { start }
    }
}

pub fn read(text: &str) -> Result<GfxData, BadGfx> {
    if text.len() > GFX_BYTES_MAX {
        return Err(BadGfx::TooLarge { bytes: text.len() });
    }
    let value: Value =
        serde_json::from_str(text).map_err(|error| BadGfx::NotJson { why: error.to_string() })?;
    let Value::Object(object) = value else {
        return Err(BadGfx::Malformed { problems: vec!["the data is not an object".to_owned()] });
    };
    let mut reader = Reader::default();
    reader.read(&object);
    if reader.problems.is_empty() {
        Ok(reader.data)
    } else {
        Err(BadGfx::Malformed { problems: reader.problems })
    }
}

#[derive(Default)]
struct Reader {
    data: GfxData,
    problems: Vec<String>,
}

impl Reader {
    fn read(&mut self, object: &Map<String, Value>) {
        self.keys("the data", object, &KEYS);
        match object.get("composition_name") {
            None | Some(Value::Null) => {}
            Some(Value::String(name)) => self.data.composition = Some(name.clone()),
            Some(_) => self.bad("composition_name is not a text"),
        }
        match object.get("slots") {
            None | Some(Value::Null) => {}
            Some(Value::Array(slots)) => {
                for (index, slot) in slots.iter().enumerate() {
                    self.slot(index, slot);
                }
            }
            Some(_) => self.bad("slots is not a list"),
        }
        match object.get("single_fields") {
            None | Some(Value::Null) => {}
            Some(Value::Object(fields)) => {
                self.fields("single_fields", fields, |name| Field::Single { name });
            }
            Some(_) => self.bad("single_fields is not an object"),
        }
        let is_given = |name: &str| object.get(name).is_some_and(|flags| !flags.is_null());
        if is_given("flags") && is_given("flag_fields") {
            self.bad("both flags and flag_fields are given; write one of them");
        }
        for name in ["flags", "flag_fields"] {
            self.flags(name, object.get(name).unwrap_or(&Value::Null));
        }
    }

    fn slot(&mut self, index: usize, slot: &Value) {
        let place = format!("slots[{index}]");
        if let Value::Object(object) = slot {
            self.keys(&place, object, &SLOT_KEYS);
        }
        let number = slot.get("slot_number").and_then(Value::as_u64);
        let number = number.and_then(|number| u16::try_from(number).ok());
        let Some(number) = number.filter(|number| (1..=NUMBER_MAX).contains(number)) else {
            return self.bad(&format!("{place}: slot_number is not a whole number from 1 to {NUMBER_MAX}"));
        };
        if !self.data.slots.insert(number) {
            return self.bad(&format!("{place}: there is another slot {number}"));
        }
        match slot.get("fields") {
            None | Some(Value::Null) => {}
            Some(Value::Object(fields)) => self.fields(&place, fields, |name| Field::Slot { number, name }),
            Some(_) => self.bad(&format!("{place}: fields is not an object")),
        }
    }

    fn keys(&mut self, place: &str, object: &Map<String, Value>, known: &[&str]) {
        for name in object.keys().filter(|name| !known.contains(&name.as_str())) {
            let instead = match nearest(name, known.iter().copied()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("the keys are {}", known.join(", ")),
            };
            let name: String = name.chars().take(80).collect();
            self.bad(&format!("{place}: {name:?} is not a known key; {instead}"));
        }
    }

    fn fields(&mut self, place: &str, fields: &Map<String, Value>, field: impl Fn(String) -> Field) {
        for (name, value) in fields {
            // The name must be possible in a mapping.
            let field = field(name.clone());
            match (field.to_string().parse::<Field>(), show(value)) {
                (Err(_), _) => self.bad(&format!("{place}: {name:?} is not a valid field name")),
                (Ok(_), Err(what)) => self.bad(&format!("{place}: {name} is {what}")),
                (Ok(field), Ok(text)) => {
                    self.data.fields.insert(field, text);
                }
            }
        }
    }

    /// A list counts from 1; an object uses `1` or `Flag 1`.
    fn flags(&mut self, place: &str, flags: &Value) {
        let numbered: Vec<(String, &Value)> = match flags {
            Value::Null => Vec::new(),
            Value::Array(flags) => {
                flags.iter().enumerate().map(|(index, flag)| ((index + 1).to_string(), flag)).collect()
            }
            Value::Object(flags) => flags.iter().map(|(name, flag)| (name.clone(), flag)).collect(),
            _ => return self.bad(&format!("{place} is neither a list nor an object")),
        };
        for (name, flag) in numbered {
            let field = if name.starts_with("Flag ") { name.parse() } else { format!("Flag {name}").parse() };
            let Ok(field @ Field::Flag { .. }) = field else {
                self.bad(&format!("{place}: {name:?} is not a flag number"));
                continue;
            };
            let path = match flag {
                Value::Null => None,
                Value::String(path) => Some(path.clone()),
                _ => {
                    self.bad(&format!("{place}: {field} is not a text"));
                    continue;
                }
            };
            if self.data.fields.insert(field.clone(), path).is_some() {
                self.bad(&format!("{place}: there is another {field}"));
            }
        }
    }

    fn bad(&mut self, problem: &str) {
        self.problems.push(problem.to_owned());
    }
}

/// The text to show; none for null. Lists and objects are refused.
fn show(value: &Value) -> Result<Option<String>, &'static str> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Bool(is) => Ok(Some(is.to_string())),
        // 250.0 becomes 250, and numbers have no exponent.
        Value::Number(number) if number.is_f64() => match number.as_f64() {
            Some(number) if number.abs() < EXACT_BELOW => Ok(Some(number.to_string())),
            _ => Err("a number too large to be shown exactly; write it as a text"),
        },
        Value::Number(number) => Ok(Some(number.to_string())),
        Value::Array(_) => Err("a list"),
        Value::Object(_) => Err("an object"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;
    use proptest::prelude::*;

    fn shown(data: &GfxData, field: &str) -> Option<String> {
        data.fields[&field.parse().unwrap()].clone()
    }

    #[test]
    fn the_documents_example_is_read() {
        let data = read(
            r#"{"composition_name": "_MAIN Mini Chip Count",
                "slots": [{"slot_number": 1, "fields": {"name": "PHIL IVEY", "stack": "250", "country": "United States"}}],
                "single_fields": {"table_id": "Table 1", "round_info": "Final Table"},
                "flags": ["D:/assets/flags/United States.png"]}"#,
        )
        .unwrap();

        assert_eq!(data.composition.as_deref(), Some("_MAIN Mini Chip Count"));
        assert_eq!(shown(&data, "Slot 1 - name").as_deref(), Some("PHIL IVEY"));
        assert_eq!(shown(&data, "Single - round_info").as_deref(), Some("Final Table"));
        assert_eq!(shown(&data, "Flag 1").as_deref(), Some("D:/assets/flags/United States.png"));
        assert_eq!(data.fields.len(), 6);
    }

    #[test]
    fn a_preview_has_the_texts_in_the_order_of_the_slots() {
        let data = read(
            r#"{"slots": [{"slot_number": 10, "fields": {"name": "IVEY", "stack": 250}},
                          {"slot_number": 2, "fields": {"name": "HELLMUTH\nP.", "stack": null}}, {"slot_number": 3}],
                "single_fields": {"title": "Final Table", "note": " "}, "flags": ["D:/flag.png"]}"#,
        );

        assert_eq!(data.unwrap().preview(), "Final Table · HELLMUTH P. · IVEY, 250");
        assert_eq!(read("{}").unwrap().preview(), "");
        let long = read(&format!(r#"{{"single_fields": {{"a": "{}"}}}}"#, "가".repeat(121))).unwrap();
        assert_eq!(long.preview(), format!("{}…", "가".repeat(120)));
    }

    #[test]
    fn slots_go_by_their_numbers_and_may_have_gaps() {
        let data = read(
            r#"{"slots": [{"slot_number": 9, "fields": {"name": "I"}}, {"slot_number": 2, "fields": {"name": "B"}}]}"#,
        )
        .unwrap();

        assert_eq!(data.slots, BTreeSet::from([2, 9]));
        assert_eq!(shown(&data, "Slot 9 - name").as_deref(), Some("I"));
    }

    #[test]
    fn values_are_shown_as_people_write_them() {
        let data = read(
            r#"{"single_fields": {"a": null, "b": true, "c": 250, "d": 250.0, "e": 1.5, "f": 18446744073709551615, "g": -3, "h": ""}}"#,
        )
        .unwrap();
        let show = |name: &str| shown(&data, &format!("Single - {name}"));

        assert_eq!(show("a"), None);
        for (name, text) in [
            ("b", "true"),
            ("c", "250"),
            ("d", "250"),
            ("e", "1.5"),
            ("f", "18446744073709551615"),
            ("g", "-3"),
            ("h", ""),
        ] {
            assert_eq!(show(name).as_deref(), Some(text), "{name}");
        }
    }

    #[test]
    fn all_that_is_wrong_is_named_at_once() {
        let bad = read(
            r#"{"composition_name": 1,
                "slots": [{"slot_number": 1}, {"slot_number": 1}, {"fields": {}}, {"slot_number": 0}, {"slot_number": 1.5},
                          {"slot_number": 2, "fields": {"a": [], "b": {}, "": 1}}, 7],
                "single_fields": [], "flags": ["a", 1], "flag_fields": {"x": "b"}}"#,
        )
        .unwrap_err();

        let BadGfx::Malformed { problems } = &bad else { panic!("{bad}") };
        assert_eq!(problems.len(), 13, "{problems:#?}");
        assert_eq!(bad.code(), Code::BadRenderData);
        assert_eq!(read("nonsense").unwrap_err().code(), Code::BadRenderData);
        assert_eq!(read("[]").unwrap_err().code(), Code::BadRenderData);
    }

    #[test]
    fn a_key_that_nobody_knows_is_refused_with_the_nearest_one() {
        let check = |text: &str, expected: &str| match read(text) {
            Err(BadGfx::Malformed { problems }) => assert_eq!(problems, [expected], "{text}"),
            other => panic!("{text}: {other:?}"),
        };

        check(r#"{"slot": []}"#, "the data: \"slot\" is not a known key; did you mean slots?");
        check(
            r#"{"players": []}"#,
            "the data: \"players\" is not a known key; the keys are composition_name, slots, single_fields, flags, flag_fields",
        );
        check(
            r#"{"slots": [{"slot_number": 1, "field": {"name": "A"}}]}"#,
            "slots[0]: \"field\" is not a known key; did you mean fields?",
        );
    }

    #[test]
    fn a_number_that_would_be_rounded_is_refused() {
        for number in ["18446744073709551616", "12345678901234567890123", "9007199254740993.0", "-1e30"] {
            let bad = read(&format!(r#"{{"single_fields": {{"chips": {number}}}}}"#)).unwrap_err();
            assert!(bad.to_string().contains("write it as a text"), "{number}: {bad}");
        }
    }

    #[test]
    fn flags_are_a_list_or_have_numbers() {
        let list = read(r#"{"flags": ["a", null, "c"]}"#).unwrap();
        let object = read(r#"{"flag_fields": {"1": "a", "Flag 3": "c", "2": null}}"#).unwrap();

        assert_eq!(list, object);
        assert!(read(r#"{"flag_fields": {"1": "a", "Flag 1": "c"}}"#).is_err());
    }

    #[test]
    fn too_much_is_not_looked_at() {
        let bad = read(&" ".repeat(GFX_BYTES_MAX + 1)).unwrap_err();

        assert_eq!(bad.code(), Code::RenderDataTooLarge);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in "[\\[\\]{}\":,slotfagn_umber0-9e. ]{0,60}") {
            let _answer = read(&text);
        }
    }

    #[test]
    fn a_number_is_shown_as_text() {
        use crate::render::gfx::read;
        let data = read(r#"{"slots": [{"slot_number": 3, "fields": {"name": "PHIL IVEY", "stack": 250}}]}"#)
            .unwrap();
        assert_eq!(data.fields[&"Slot 3 - stack".parse().unwrap()].as_deref(), Some("250"));
    }
}
