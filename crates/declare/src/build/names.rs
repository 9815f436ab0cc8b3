//! The values of `${name}` and `parameters.name` while a step runs.

use super::{Builder, Built};
use crate::diagnostic::BadText;
use crate::expression::{CONTEXT, Expression};
use crate::model::{At, Names, Place};
use crate::template::Template;
use std::sync::Arc;
use tidemill_domain::item::{ItemError, Value};
use tidemill_domain::job::{JobParameters, ParameterValue};
use tidemill_engine::job::StepScope;
use tidemill_kafka::KafkaOptions;
use tidemill_store::item::Database;

/// The declared parameters. Those that are not given exist with the value null.
#[derive(Clone, Debug)]
pub(super) struct ParameterNames(Arc<[String]>);

impl ParameterNames {
    pub(super) fn values(&self, parameters: &JobParameters) -> Names {
        let missing = self.0.iter().map(|name| (name.clone(), Value::Null));
        let given = parameters.iter().map(|(name, parameter)| (name.to_owned(), value(&parameter.value)));
        missing.chain(given).collect()
    }

    /// All values of a step's run, including those of earlier steps, of its pool and of its partition.
    pub(super) fn in_step(&self, scope: &StepScope) -> Names {
        let mut names = self.values(scope.parameters());
        for (name, value) in scope.job_context().iter() {
            names.entry(format!("{CONTEXT}{name}")).or_insert_with(|| Value::from_json(value.clone()));
        }
        let context = scope.context();
        if let Some(file) = context.get("file").and_then(|file| file.as_str()) {
            names.insert("file".to_owned(), file.into());
        }
        for (key, name) in [("from", "range.from"), ("to", "range.to"), ("row_group", "row_group")] {
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
    template.render(names).map_err(ItemError::fatal)
}

impl Builder<'_> {
    pub(super) fn parameter_names(&self) -> ParameterNames {
        ParameterNames(self.file.parameters.iter().map(|declared| declared.value.spec.name.clone()).collect())
    }

    pub(super) fn template(&self, text: &At<String>) -> Built<Template> {
        self.parsed(text, Template::parse, "correct the text")
    }

    pub(super) fn expression(&self, text: &At<String>) -> Built<Arc<Expression>> {
        self.parsed(text, Expression::parse, "correct the expression").map(Arc::new)
    }

    pub(super) fn parsed<T>(
        &self,
        text: &At<String>,
        parse: impl Fn(&str) -> Result<T, BadText>,
        fix: &str,
    ) -> Built<T> {
        parse(&text.value).map_err(|bad| {
            let place = self.file.source.inside(text.place, &text.value, bad.offset);
            self.refusal(place, bad.message, fix)
        })
    }

    pub(super) fn kafka_options(&self, place: Place) -> Built<KafkaOptions> {
        let options = self.building.kafka;
        options.cloned().map_err(|error| self.refusal(place, error.to_string(), error.fix()))
    }

    /// A configured connection; none is the job's own database.
    pub(super) fn connection(&self, name: Option<&At<String>>) -> Built<Option<Database>> {
        let Some(name) = name else { return Ok(None) };
        let connections = self.building.connections;
        connections.get(&name.value).cloned().map(Some).ok_or_else(|| {
            let known: Vec<&str> = connections.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".into() } else { known.join(", ") };
            let what = format!("there is no connection {:?}; there are {known}", name.value);
            let fix = format!("add [connections.{}] with its url to the configuration", name.value);
            self.refusal(name.place, what, fix)
        })
    }
}
