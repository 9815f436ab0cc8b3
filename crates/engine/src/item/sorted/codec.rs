//! Rows as bytes, for the files of a sort. The files are read by the process that writes them, and by no other.

use crate::job::ItemPlace;
use std::collections::HashMap;
use std::sync::Arc;
use tidemill_domain::item::{ItemError, Row};
use tidemill_store::item::{value_from_json, value_to_json};

/// Length of the place at the beginning of a record.
pub(super) const PLACE_LENGTH: usize = 12;

/// Most different sets of columns, as of JSON objects that lack some.
const COLUMN_SETS_MAX: usize = 1_000;

/// What many records share: they refer to it by number.
#[derive(Default)]
pub(super) struct Shared {
    columns: Vec<Arc<[String]>>,
    numbers: HashMap<Arc<[String]>, u32>,
    sources: Vec<(Arc<str>, &'static str)>,
}

impl Shared {
    pub(super) fn encode(&mut self, row: &Row, place: Option<&ItemPlace>) -> Result<Vec<u8>, ItemError> {
        let mut bytes = Vec::new();
        let source = place.map_or(u32::MAX, |place| self.source(place));
        bytes.extend(source.to_le_bytes());
        bytes.extend(place.map_or(0, |place| place.number).to_le_bytes());
        bytes.extend(self.columns_of(row)?.to_le_bytes());
        let values: serde_json::Value = row.values().iter().map(value_to_json).collect();
        bytes.extend(values.to_string().into_bytes());
        bytes.shrink_to_fit();
        Ok(bytes)
    }

    pub(super) fn decode(&self, bytes: &[u8]) -> Result<(Row, Option<ItemPlace>), ItemError> {
        let damaged = || ItemError::fatal("a file of the sort is damaged; restart the job to sort again");
        self.row(bytes).ok_or_else(damaged)
    }

    fn row(&self, bytes: &[u8]) -> Option<(Row, Option<ItemPlace>)> {
        let (source, rest) = bytes.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (columns, values) = rest.split_first_chunk()?;
        let place = self.sources.get(u32::from_le_bytes(*source) as usize).map(|(source, unit)| ItemPlace {
            source: source.clone(),
            unit,
            number: u64::from_le_bytes(*number),
        });
        let columns = self.columns.get(u32::from_le_bytes(*columns) as usize)?;
        let values: Vec<serde_json::Value> = serde_json::from_slice(values).ok()?;
        let values = values.iter().map(value_from_json).collect::<Option<_>>()?;
        Some((Row::new(columns.clone(), values), place))
    }

    fn columns_of(&mut self, row: &Row) -> Result<u32, ItemError> {
        if let Some(number) = self.numbers.get(row.columns()) {
            return Ok(*number);
        }
        if self.columns.len() == COLUMN_SETS_MAX {
            let text = format!(
                "the rows have more than {COLUMN_SETS_MAX} different sets of columns, and these stay in memory; sort in \
                 a second step, after a map that gives all rows the same columns"
            );
            return Err(ItemError::fatal(text));
        }
        let number = u32::try_from(self.columns.len()).unwrap_or(u32::MAX);
        self.columns.push(row.columns().clone());
        self.numbers.insert(row.columns().clone(), number);
        Ok(number)
    }

    /// Sources come one after the other, so the last one is nearly always the right one.
    fn source(&mut self, place: &ItemPlace) -> u32 {
        let is_same = |known: &(Arc<str>, &'static str)| known.0 == place.source && known.1 == place.unit;
        let index = self.sources.iter().rposition(is_same).unwrap_or_else(|| {
            self.sources.push((place.source.clone(), place.unit));
            self.sources.len() - 1
        });
        u32::try_from(index).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::item::Value;

    #[test]
    fn rows_come_back_with_their_place_and_damaged_ones_are_refused() {
        let columns: Arc<[String]> = ["id", "amount"].map(str::to_owned).into();
        let row = Row::new(columns, vec![Value::Long(i64::MIN), Value::Decimal("-12.50".parse().unwrap())]);
        let place = ItemPlace { source: "in.csv".into(), unit: "line", number: 7 };
        let mut shared = Shared::default();

        let bytes = shared.encode(&row, Some(&place)).unwrap();
        let placeless = shared.encode(&row, None).unwrap();

        assert_eq!(shared.decode(&bytes).unwrap(), (row, Some(place)));
        assert_eq!(shared.decode(&placeless).unwrap().1, None);
        for length in 0..bytes.len() {
            assert!(shared.decode(&bytes[..length]).is_err(), "{length}");
        }
        let other = |number| Row::new([format!("c{number}")].into(), vec![Value::Null]);
        let refused = (0..COLUMN_SETS_MAX).find(|number| shared.encode(&other(*number), None).is_err());
        assert_eq!(refused, Some(COLUMN_SETS_MAX - 1), "one set was there before");
    }
}
