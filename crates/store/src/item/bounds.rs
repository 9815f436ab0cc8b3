//! The smallest and the greatest value of an integer column, for reading it in ranges.

use super::identifier::quoted;
use super::{CursorReader, Database, SqlQuery};
use tidemill_domain::item::{ErrorKind, ItemError, Value};
use tidemill_domain::job::ExecutionContext;

impl Database {
    /// `None` if no row has a value. `table` may be `schema.table`.
    #[crate::boxed]
    pub async fn bounds(&self, table: &str, column: &str) -> Result<Option<(i64, i64)>, ItemError> {
        let quote = self.flavour().quote();
        let parts: Vec<String> =
            table.split('.').map(|part| quoted(part, quote)).collect::<Result<_, _>>()?;
        let (table, name) = (parts.join("."), quoted(column, quote)?);
        let query =
            SqlQuery::new(format!("select min({name}) as least, max({name}) as greatest from {table}"));
        let mut reader = CursorReader::new("bounds", self.clone(), query);
        reader.open(&ExecutionContext::new()).await?;
        let row = reader.read().await;
        reader.close().await;
        let Some(row) = row? else { return Ok(None) };
        match row.values() {
            [Value::Null, _] | [_, Value::Null] => Ok(None),
            [least, greatest] => Ok(Some((whole(least, column)?, whole(greatest, column)?))),
            _ => Ok(None),
        }
    }
}

fn whole(value: &Value, column: &str) -> Result<i64, ItemError> {
    let number = match value {
        Value::Long(number) => Some(*number),
        Value::Decimal(number) => number.to_string().parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| {
        let text = format!("column {column:?} holds a {}; ranges need whole numbers", value.type_word());
        ItemError::new(ErrorKind::FATAL, text)
    })
}
