//! From the fields of a record to an item: a serde type or a row.

use csv::StringRecord;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use tidemill_domain::item::{Row, Value};

/// The fields of the current record, and the names of their columns, if they have names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    pub(crate) columns: Option<Columns>,
    pub(crate) record: StringRecord,
    pub(crate) empty_is_null: bool,
}

/// Column names, in the two forms that are needed.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    record: StringRecord,
    pub(crate) shared: Arc<[String]>,
}

impl Columns {
    pub(crate) fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        let shared: Arc<[String]> = names.into_iter().map(Into::into).collect();
        Self { record: shared.iter().collect(), shared }
    }

    /// Why the names cannot be used. Several columns may be without a name: nothing can refer to them.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.shared.iter().enumerate().filter(|(_, name)| !name.is_empty()).find_map(|(index, name)| {
            let first = self.shared[..index].iter().position(|other| other == name)? + 1;
            let second = index + 1;
            Some(format!(
                "columns {first} and {second} are both named {name:?}; give one of them another name"
            ))
        })
    }
}

impl Fields {
    /// Matches fields by column name, or by order when there are no names.
    pub(crate) fn typed<T: DeserializeOwned>(&self) -> Result<T, String> {
        let columns = self.columns.as_ref().map(|columns| &columns.record);
        self.record.deserialize(columns).map_err(|error| self.explain(&error))
    }

    pub(crate) fn row(&self) -> Row {
        let value = |field: &str| match self.empty_is_null && field.is_empty() {
            true => Value::Null,
            false => Value::Text(field.to_owned()),
        };
        let names = match &self.columns {
            Some(columns) => columns.shared.clone(),
            None => (1..=self.record.len()).map(|number| number.to_string()).collect(),
        };
        Row::new(names, self.record.iter().map(value).collect())
    }

    fn explain(&self, error: &csv::Error) -> String {
        let csv::ErrorKind::Deserialize { err, .. } = error.kind() else { return error.to_string() };
        // The csv crate counts fields from 0.
        let Some(field) = err.field().and_then(|field| usize::try_from(field).ok()) else {
            return err.kind().to_string();
        };
        match self.columns.as_ref().and_then(|columns| columns.shared.get(field)) {
            Some(name) => format!("column {name:?}: {}", err.kind()),
            None => format!("field {}: {}", field + 1, err.kind()),
        }
    }
}
