//! The parameters that a job declares.

use super::{Fields, Reader, Table, Truth, all, tables};
use crate::document::{Content, Key, Node};
use crate::model::{Allowance, At, ParameterFile};
use tidemill_domain::job::parameter::{Accepted, ParameterSpec, ParameterType};

tables! {
    PARAMETER = "a parameter" ["type" "required" "identifying" "default" "one_of" "pattern" "allow" "description"]
        "{ type: date, required: true }";
}

/// Our types, and common other names for them.
const OTHER_WORDS: [(&str, &[&str]); 4] = [
    ("long", &["int", "integer", "number", "bigint"]),
    ("string", &["text", "str", "varchar", "bool", "boolean", "decimal"]),
    ("double", &["float"]),
    ("datetime", &["timestamp"]),
];

impl Reader<'_> {
    pub(super) fn parameters(&mut self, node: &Node) -> Option<Vec<At<ParameterFile>>> {
        if node.content == Content::Null {
            return Some(Vec::new());
        }
        let example = "parameters: { date: { type: date, required: true } }";
        let entries = self.named(node, "parameters is a table by name", example)?;
        // Steps may name a parameter whose declaration is wrong.
        let untyped = |key: &Key| {
            let spec = ParameterSpec::required(key.name.clone(), ParameterType::Text);
            At { value: ParameterFile { spec, default: None, allows: Vec::new() }, place: key.place }
        };
        let read = |(key, value): &(Key, Node)| self.parameter(key, value).unwrap_or_else(|| untyped(key));
        Some(entries.iter().map(read).collect())
    }

    fn parameter(&mut self, key: &Key, node: &Node) -> Option<At<ParameterFile>> {
        let fields = self.table(node, &format!("the parameter {}", key.name), PARAMETER)?;
        let kind = fields.get("type").map_or(Some(ParameterType::Text), |node| self.parameter_type(node));
        let is_required = self.truth_of(&fields, "required", Truth::No);
        let is_identifying = self.truth_of(&fields, "identifying", Truth::Yes);
        let default = fields.get("default").map(|node| match &node.content {
            // An empty text is allowed.
            Content::Scalar(text) => Some(text.clone()),
            _ => self.text(node, "default").map(|text| text.value),
        });
        if is_required && let Some(key) = fields.key("default") {
            let why = "a parameter that has to be given never needs its default".to_owned();
            let what = "a required parameter has a default";
            self.wrong_key(key, what, Some(why), "take out required or default");
        }
        let (kind, default) = match default {
            Some(read) => (kind?, Some(read?)),
            None => (kind?, None),
        };
        if let (Some(text), Some(node)) = (&default, fields.get("default"))
            && kind.read(text).is_err()
        {
            let what = format!("the default of {} is not {kind}", key.name);
            self.wrong(node, what, "correct the default, or the type");
        }
        let (accepted, allows) = (self.accepted(&fields, kind)?, self.allows(&fields)?);
        let spec = ParameterSpec { name: key.name.clone(), kind, is_required, is_identifying, accepted };
        Some(At { value: ParameterFile { spec, default, allows }, place: key.place })
    }

    /// Which values are accepted. How they are used is found out when all steps are known.
    fn accepted(&mut self, fields: &Fields<'_>, kind: ParameterType) -> Option<Accepted> {
        let mut accepted = Accepted::default();
        if let Some(node) = fields.get("one_of") {
            for (item, text) in self.items(node, "one_of")?.iter().zip(self.texts(node, "one_of")?) {
                match kind.read(&text.value) {
                    // In stored form: 1 of the type double is 1.0.
                    Ok(value) => accepted.one_of.push(value.stored_text()),
                    Err(_) => {
                        let what = format!("a value of one_of is not {kind}");
                        self.wrong(item, what, "correct the value, or the type");
                    }
                }
            }
        }
        if let Some(node) = fields.get("pattern") {
            accepted.pattern = self.pattern(node);
        }
        if let (Some(_), Some(key)) = (fields.get("one_of"), fields.key("pattern")) {
            let why = "a value of one_of is accepted whatever the pattern says".to_owned();
            self.wrong_key(key, "a parameter has one_of and a pattern", Some(why), "take out one of them");
        }
        Some(accepted)
    }

    fn allows(&mut self, fields: &Fields<'_>) -> Option<Vec<Allowance>> {
        let Some(node) = fields.get("allow") else { return Some(Vec::new()) };
        let words = [("path", Allowance::Path), ("option", Allowance::Option)];
        let items = self.items(node, "allow")?;
        all(items.iter().map(|item| self.word(item, "allow", &words)))
    }

    fn parameter_type(&mut self, node: &Node) -> Option<ParameterType> {
        let words = ParameterType::ALL.map(|kind| (kind.as_str(), kind));
        self.word_or(node, "type", &words, &OTHER_WORDS)
    }
}
