//! The values of `${name}` and `parameters.name` while a step runs.

use super::Builder;
use crate::expression::Expression;
use crate::model::{At, Names};
use crate::template::Template;
use std::sync::Arc;
use tidemill_domain::item::{ErrorKind, ItemError, Value};
use tidemill_domain::job::{JobParameters, ParameterValue};
use tidemill_engine::job::StepScope;
use tidemill_store::item::Database;

/// The declared parameters. Those that are not given exist with the value null.
#[derive(Clone, Debug)]
pub(super) struct ParameterNames(Arc<[String]>);

impl ParameterNames {
    pub(super) fn of(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().collect())
    }

    pub(super) fn values(&self, parameters: &JobParameters) -> Names {
        let missing = self.0.iter().map(|name| (name.clone(), Value::Null));
        let given = parameters.iter().map(|(name, parameter)| (name.to_owned(), value(&parameter.value)));
        missing.chain(given).collect()
    }

    /// All values of a step's run, including those of its pool and its partition.
    pub(super) fn in_step(&self, scope: &StepScope) -> Names {
        let mut names = self.values(scope.parameters());
        let context = scope.context();
        if let Some(file) = context.get("file").and_then(|file| file.as_str()) {
            names.insert("file".to_owned(), file.into());
        }
        for (key, name) in [("from", "range.from"), ("to", "range.to")] {
            if let Some(bound) = context.get_long(key) {
                names.insert(name.to_owned(), bound.into());
            }
        }
        if let Some(granted) = scope.granted() {
            names.insert("units".to_owned(), i64::from(granted.units).into());
            names.extend(granted.hint.as_deref().map(|hint| ("hint".to_owned(), hint.into())));
        }
        names
    }
}

/// Puts the pool's hint into an SQL text. A hint cannot be bound; it is the author's text, lowered to what was granted.
pub(super) fn hinted(template: &Template, scope: &StepScope) -> Template {
    match scope.granted().and_then(|granted| granted.hint.as_deref()) {
        Some(hint) => template.with_text("hint", hint),
        None => template.clone(),
    }
}

fn value(parameter: &ParameterValue) -> Value {
    match parameter {
        ParameterValue::Text(text) => text.as_str().into(),
        ParameterValue::Long(number) => (*number).into(),
        ParameterValue::Double(number) => (*number).into(),
        ParameterValue::Date(date) => (*date).into(),
        ParameterValue::Time(time) => (*time).into(),
        ParameterValue::DateTime(both) => (*both).into(),
    }
}

pub(super) fn rendered(template: &Template, names: &Names) -> Result<String, ItemError> {
    template.render(names).map_err(|error| ItemError::of(ErrorKind::FATAL, error))
}

impl Builder<'_> {
    pub(super) fn template(&mut self, text: &At<String>) -> Option<Template> {
        let read = Template::parse(&text.value);
        read.map_err(|error| self.unreadable(text, error.offset, error.message, "correct the text")).ok()
    }

    pub(super) fn sql_template(&mut self, text: &At<String>) -> Option<Template> {
        let read = Template::parse_sql(&text.value);
        read.map_err(|error| self.unreadable(text, error.offset, error.message, "correct the text")).ok()
    }

    pub(super) fn expression(&mut self, text: &At<String>) -> Option<Arc<Expression>> {
        let read = Expression::parse(&text.value).map(Arc::new);
        read.map_err(|error| self.unreadable(text, error.offset, error.message, "correct the expression"))
            .ok()
    }

    fn unreadable(&mut self, text: &At<String>, offset: usize, message: String, fix: &str) {
        let place = self.file.source.inside(text.place, &text.value, offset);
        self.refuse(place, message, fix);
    }

    /// A configured connection; an inner none is the job's own database.
    pub(super) fn connection(&mut self, name: Option<&At<String>>) -> Option<Option<Database>> {
        let Some(name) = name else { return Some(None) };
        match self.building.connections.get(&name.value) {
            Some(database) => Some(Some(database.clone())),
            None => {
                let known: Vec<&str> = self.building.connections.keys().map(String::as_str).collect();
                let known = if known.is_empty() { "none".into() } else { known.join(", ") };
                let what = format!("there is no connection {:?}; there are {known}", name.value);
                let fix = format!("add [connections.{}] with its url to the configuration", name.value);
                self.refuse(name.place, what, fix);
                None
            }
        }
    }
}
