//! Items as rows, for formats that write columns by name.

use serde::Serialize;
use std::borrow::Cow;
use std::sync::Arc;
use tidemill_domain::item::{ErrorKind, ItemError, Row};

pub type AsRow<T> = fn(&T) -> Result<Cow<'_, Row>, ItemError>;

pub fn row_itself(row: &Row) -> Result<Cow<'_, Row>, ItemError> {
    Ok(Cow::Borrowed(row))
}

/// The fields of a struct are the columns.
pub fn row_of<T: Serialize>(item: &T) -> Result<Cow<'_, Row>, ItemError> {
    match serde_json::to_value(item).map_err(|error| ItemError::of(ErrorKind::WRITE, error))? {
        serde_json::Value::Object(fields) => {
            let mut names: Arc<[String]> = Arc::new([]);
            Ok(Cow::Owned(Row::from_json(fields, &mut names)))
        }
        _ => Err(ItemError::fatal("an item of this type has no fields; write structs or rows")),
    }
}
