//! The parameters that a job declares.

use super::fields::{Reader, Table};
use super::scalar::Truth;
use crate::document::{Content, Key, Node};
use crate::model::{At, ParameterFile};
use tidemill_domain::job::parameter::{ParameterSpec, ParameterType};

const PARAMETER: Table = Table {
    what: "a parameter",
    keys: &["type", "required", "identifying", "default", "description"],
    example: "{ type: date, required: true }",
};

/// What people call our types elsewhere.
const OTHER_WORDS: [(&str, &str); 12] = [
    ("int", "long"),
    ("integer", "long"),
    ("number", "long"),
    ("bigint", "long"),
    ("text", "string"),
    ("str", "string"),
    ("varchar", "string"),
    ("bool", "string"),
    ("boolean", "string"),
    ("float", "double"),
    ("decimal", "string"),
    ("timestamp", "datetime"),
];

impl Reader<'_> {
    /// The parameters, in the order of the file.
    pub(super) fn parameters(&mut self, node: &Node) -> Option<Vec<At<ParameterFile>>> {
        let Content::Map(entries) = &node.content else {
            if node.content == Content::Null {
                return Some(Vec::new());
            }
            let what = format!("parameters is a table by name, and here is {}", node.type_words());
            self.wrong(node, what, "write it as parameters: { date: { type: date, required: true } }");
            return None;
        };
        let read: Vec<_> = entries.iter().map(|(key, value)| self.parameter(key, value)).collect();
        read.into_iter().collect()
    }

    fn parameter(&mut self, key: &Key, node: &Node) -> Option<At<ParameterFile>> {
        let fields = self.table(node, &format!("the parameter {}", key.name), PARAMETER)?;
        let kind = match fields.get("type") {
            Some(node) => self.parameter_type(node),
            None => Some(ParameterType::Text),
        };
        let is_required = self.truth_of(&fields, "required", Truth::No);
        let is_identifying = self.truth_of(&fields, "identifying", Truth::Yes);
        let default = fields.get("default").map(|node| match &node.content {
            // A text may be empty on purpose.
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
        let spec = ParameterSpec { name: key.name.clone(), kind, is_required, is_identifying };
        Some(At { value: ParameterFile { spec, default }, place: key.place })
    }

    fn parameter_type(&mut self, node: &Node) -> Option<ParameterType> {
        let words = ParameterType::ALL.map(|kind| (kind.as_str(), kind));
        if let Content::Scalar(text) = &node.content
            && let Some((_, ours)) = OTHER_WORDS.iter().find(|(other, _)| *other == text.to_lowercase())
        {
            let all = words.map(|(word, _)| word).join(", ");
            self.wrong(
                node,
                format!("type is one of {all}, and here is {text:?}"),
                format!("write type: {ours}"),
            );
            return None;
        }
        self.word(node, "type", &words)
    }
}
