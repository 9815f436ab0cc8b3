//! A table in memory, in which rows are found by key.

use crate::job::ItemReader;
use std::collections::HashMap;
use tidemill_domain::item::{Direction, ItemError, Row, Value};
use tidemill_domain::job::ExecutionContext;

/// Most bytes of all values.
const BYTES_MAX: usize = 1 << 30;

/// Memory of a value besides its bytes.
const OVERHEAD: usize = 32;

/// Rows by key, loaded into memory once.
///
/// ```
/// use tidemill_domain::item::Row;
/// use tidemill_engine::item::{ItemsReader, Lookup};
///
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let row = |code: &str, name: &str| Row::new(["code", "name"].map(str::to_owned).into(), vec![code.into(), name.into()]);
/// let countries = ItemsReader::new("countries", [row("KR", "Korea"), row("US", "United States")]);
/// let countries = Lookup::load("countries", countries, &["code".to_owned()], 1000).await?;
/// assert_eq!(countries.find(&["KR".into()]).unwrap().get::<String>("name")?, "Korea");
/// # Ok::<(), tidemill_domain::item::ItemError>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Lookup {
    rows: HashMap<Vec<u8>, Row>,
    /// The types of the key of one row, for messages.
    types: Vec<&'static str>,
}

impl Lookup {
    /// Reads all rows. Fails if there are more than `max_rows`, or if two have the same values in the columns of `key`.
    #[crate::boxed]
    pub async fn load<R: ItemReader<Item = Row>>(
        name: &str,
        mut reader: R,
        key: &[String],
        max_rows: usize,
    ) -> Result<Self, ItemError> {
        let failed = |why: String| ItemError::fatal(format!("the lookup {name:?} cannot be loaded: {why}"));
        let mut lookup = Self { rows: HashMap::new(), types: Vec::new() };
        let mut size = 0;
        reader.open(&ExecutionContext::new()).await.map_err(|error| failed(error.text()))?;
        while let Some(row) = reader.read().await.map_err(|error| failed(error.text()))? {
            tokio::task::coop::consume_budget().await;
            let values = key.iter().map(|column| row.value(column).cloned());
            let values: Vec<Value> =
                values.collect::<Result<_, _>>().map_err(|error| failed(error.to_string()))?;
            // As in a join, null is equal to nothing.
            if values.iter().any(Value::is_null) {
                continue;
            }
            if lookup.types.is_empty() {
                lookup.types = values.iter().map(Value::type_word).collect();
            }
            size += row.values().iter().map(|value| value.to_string().len() + OVERHEAD).sum::<usize>();
            if size > BYTES_MAX {
                let why = format!(
                    "it has more than {} MiB; select fewer columns, or join in a query",
                    BYTES_MAX >> 20
                );
                return Err(failed(why));
            }
            if lookup.rows.len() == max_rows {
                let why = format!("it has more than {max_rows} rows; raise max_rows, or join in a query");
                return Err(failed(why));
            }
            if lookup.rows.insert(bytes(&values), row).is_some() {
                let values: Vec<String> = values.iter().map(Value::to_string).collect();
                let why = format!("two rows have the key {}; the key has to be unique", values.join(", "));
                return Err(failed(why));
            }
        }
        reader.close(true).await?;
        Ok(lookup)
    }

    /// The row with this key. Numbers are compared by their worth, but a text is not a number.
    pub fn find(&self, key: &[Value]) -> Option<&Row> {
        self.rows.get(&bytes(key)).filter(|_| !key.iter().any(Value::is_null))
    }

    /// Why a key cannot be found, if its types are the reason.
    pub fn hint(&self, key: &[Value]) -> Option<String> {
        let given: Vec<&str> = key.iter().map(Value::type_word).collect();
        let is_other = !self.types.is_empty() && given != self.types;
        is_other.then(|| {
            format!(
                "the key of the lookup is {}, but the row has {}",
                self.types.join(", "),
                given.join(", ")
            )
        })
    }
}

fn bytes(key: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    key.iter().for_each(|value| value.push_key(&mut bytes, Direction::Ascending));
    bytes
}
