//! The order of the rows of a chunk step, and what makes them distinct.

use super::endpoint::{Make, READ};
use super::{Builder, Built};
use crate::expression::Scope;
use crate::model::{ChunkFile, Names, SortBy};
use tidemill_domain::item::Row;
use tidemill_engine::item::{BoxReader, SortedReader};

impl Builder<'_> {
    /// The reader, sorted and without duplicates, if the step asks for that.
    pub(super) fn sorted(
        &self,
        chunk: &ChunkFile,
        reader: Make<BoxReader<Row>>,
    ) -> Built<Make<BoxReader<Row>>> {
        let file = &chunk.process;
        if file.sort.is_empty() && file.dedupe.is_empty() {
            return Ok(reader);
        }
        let mut order = Vec::new();
        for (by, direction) in &file.sort {
            let expression = match by {
                SortBy::Column(_) => None,
                SortBy::Expression(text) => Some(self.expression(text)?),
            };
            order.push((by.clone(), expression, *direction));
        }
        let distinct: Vec<String> = file.dedupe.iter().map(|column| column.value.clone()).collect();
        Ok(Box::new(move |scope, names| {
            let mut sorted = SortedReader::new(READ, reader(scope, names)?).distinct(&distinct);
            for (by, expression, direction) in order.iter().cloned() {
                sorted = match (by, expression) {
                    (_, Some(expression)) => {
                        let (parameters, others) = (names.clone(), Names::new());
                        let value = move |row: &Row| {
                            expression.value(&Scope {
                                row: Some(row),
                                parameters: &parameters,
                                others: &others,
                            })
                        };
                        sorted.by_value(value, direction)
                    }
                    (SortBy::Column(text) | SortBy::Expression(text), None) => {
                        sorted.by(text.value, direction)
                    }
                };
            }
            Ok(BoxReader::new(sorted))
        }))
    }
}
