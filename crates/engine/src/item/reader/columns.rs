//! From the fields of a record to an item: a serde type or a row.

use csv::StringRecord;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use tidemill_domain::item::{Row, Value};

/// Column names, in the two forms that are needed.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    record: StringRecord,
    shared: Arc<[String]>,
}

impl Columns {
    pub(crate) fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        let shared: Arc<[String]> = names.into_iter().map(Into::into).collect();
        Self { record: shared.iter().collect(), shared }
    }

    pub(crate) fn len(&self) -> usize {
        self.shared.len()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Empty {
    #[default]
    Text,
    Null,
}

/// Matches fields by column name, or by order when there are no names.
pub(crate) fn decode_typed<T: DeserializeOwned>(
    fields: &StringRecord,
    columns: Option<&Columns>,
) -> Result<T, String> {
    fields.deserialize(columns.map(|columns| &columns.record)).map_err(|error| explain(&error, columns))
}

pub(crate) fn decode_row(fields: &StringRecord, columns: Option<&Columns>, empty: Empty) -> Row {
    let value = |field: &str| match empty {
        Empty::Null if field.is_empty() => Value::Null,
        _ => Value::Text(field.to_owned()),
    };
    let names = match columns {
        Some(columns) => columns.shared.clone(),
        None => (1..=fields.len()).map(|number| number.to_string()).collect(),
    };
    Row::new(names, fields.iter().map(value).collect())
}

fn explain(error: &csv::Error, columns: Option<&Columns>) -> String {
    let csv::ErrorKind::Deserialize { err, .. } = error.kind() else { return error.to_string() };
    // The csv crate counts fields from 0.
    match err.field().and_then(|field| usize::try_from(field).ok()) {
        Some(field) => match columns.and_then(|columns| columns.shared.get(field)) {
            Some(name) => format!("column {name:?}: {}", err.kind()),
            None => format!("field {}: {}", field + 1, err.kind()),
        },
        None => err.kind().to_string(),
    }
}
