//! Processes rows: `filter`, `map`, and the columns of the output.

use crate::expression::{Expression, Scope};
use crate::model::Names;
use std::sync::Arc;
use tidemill_domain::item::{ErrorKind, ItemError, Row};
use tidemill_engine::job::ItemProcessor;

#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    pub(super) filter: Option<Arc<Expression>>,
    pub(super) map: Option<Mapping>,
    /// Exactly these columns, in this order.
    pub(super) project: Option<Arc<[String]>>,
}

#[derive(Clone, Debug)]
pub(super) struct Mapping {
    pub(super) columns: Arc<[String]>,
    pub(super) expressions: Arc<[Arc<Expression>]>,
}

impl Process {
    pub(super) fn is_nothing(&self) -> bool {
        self.filter.is_none() && self.map.is_none() && self.project.is_none()
    }
}

#[derive(Debug)]
pub(super) struct RowProcessor {
    process: Process,
    parameters: Names,
    others: Names,
}

impl RowProcessor {
    pub(super) fn new(process: Process, parameters: Names) -> Self {
        Self { process, parameters, others: Names::new() }
    }

    fn run(&self, row: &Row) -> Result<Option<Row>, ItemError> {
        let scope = Scope { row: Some(row), parameters: &self.parameters, others: &self.others };
        if let Some(filter) = &self.process.filter
            && !filter.is_true(&scope)?
        {
            return Ok(None);
        }
        let mapped = match &self.process.map {
            Some(map) => {
                let values = map.columns.iter().zip(map.expressions.iter()).map(|(column, expression)| {
                    expression.value(&scope).map_err(|error| {
                        ItemError::new(ErrorKind::PROCESS, format!("column {column:?}: {}", error.message()))
                    })
                });
                Row::new(map.columns.clone(), values.collect::<Result<_, _>>()?)
            }
            None => row.clone(),
        };
        match &self.process.project {
            Some(columns) => {
                let values = columns.iter().map(|column| mapped.value(column).cloned());
                Ok(Some(Row::new(columns.clone(), values.collect::<Result<_, _>>()?)))
            }
            None => Ok(Some(mapped)),
        }
    }
}

impl ItemProcessor<Row> for RowProcessor {
    type Output = Row;

    async fn process(&mut self, row: &Row) -> Result<Option<Row>, ItemError> {
        self.run(row)
    }
}
