//! How the rows of a chunk step are processed: checked, filtered and mapped.

use super::file::order;
use super::{Builder, Built};
use crate::expression::{Expression, Scope};
use crate::model::{ChunkFile, ColumnRule, Names};
use std::sync::Arc;
use tidemill_domain::item::{ColumnRules, ErrorKind, ItemError, Row, Value};
use tidemill_engine::job::ItemProcessor;

/// Columns and their expressions.
type Mapping = (Arc<[String]>, Arc<[Arc<Expression>]>);

#[derive(Clone, Debug)]
pub(super) struct Process {
    rules: Arc<[Rule]>,
    /// Whether rows may lack columns, as in JSON.
    is_loose: bool,
    filter: Option<Arc<Expression>>,
    map: Option<Mapping>,
    /// Exactly these columns, in this order.
    project: Option<Arc<[String]>>,
}

#[derive(Debug)]
struct Rule {
    column: String,
    rules: ColumnRules,
    /// The expression, and the reason if it is false.
    check: Option<(Arc<Expression>, String)>,
}

impl Builder<'_> {
    pub(super) fn process(&self, chunk: &ChunkFile) -> Built<Process> {
        let file = &chunk.process;
        let filter = file.filter.as_ref().map(|text| self.expression(text)).transpose()?;
        let expressions =
            file.map.iter().map(|(_, text)| self.expression(text)).collect::<Built<Arc<[_]>>>()?;
        let columns = file.map.iter().map(|(column, _)| column.value.clone()).collect();
        Ok(Process {
            rules: file.validate.iter().map(|rule| self.rule(rule)).collect::<Built<_>>()?,
            is_loose: chunk.read.value.may_lack_columns(),
            filter,
            map: (!file.map.is_empty()).then_some((columns, expressions)),
            project: order(chunk).map(Into::into),
        })
    }

    fn rule(&self, file: &ColumnRule) -> Built<Rule> {
        let check = match &file.check {
            Some(text) => {
                let reason = match &file.message {
                    Some(message) => message.clone(),
                    None => format!("breaks the rule {}", text.value.trim()),
                };
                Some((self.expression(text)?, reason))
            }
            None => None,
        };
        Ok(Rule { column: file.column.value.clone(), rules: file.rules.clone(), check })
    }
}

impl Process {
    pub(super) fn is_nothing(&self) -> bool {
        self.rules.is_empty() && self.filter.is_none() && self.map.is_none() && self.project.is_none()
    }

    /// An error with all rules that the row breaks.
    fn check(&self, row: &Row, scope: &Scope<'_>) -> Result<(), ItemError> {
        let mut broken: Vec<(&str, String)> = Vec::new();
        for Rule { column, rules, check } in self.rules.iter() {
            let value = match row.value(column) {
                Ok(value) => value,
                Err(_) if self.is_loose => &Value::Null,
                Err(error) => return Err(error.into()),
            };
            if let Err(reason) = rules.check(value) {
                broken.push((column, reason));
            } else if let Some((expression, reason)) = check {
                match expression.is_true(scope) {
                    Ok(true) => {}
                    Ok(false) => broken.push((column, reason.clone())),
                    Err(error) => broken.push((column, format!("cannot be checked: {}", error.message()))),
                }
            }
        }
        if broken.is_empty() {
            return Ok(());
        }
        let reasons: Vec<String> =
            broken.iter().map(|(column, reason)| format!("column {column:?} {reason}")).collect();
        let columns: Vec<&str> = broken.iter().map(|(column, _)| *column).collect();
        Err(ItemError::new(ErrorKind::VALIDATION, reasons.join("; ")).in_columns(&columns))
    }

    fn mapped(&self, row: &Row, scope: &Scope<'_>) -> Result<Row, ItemError> {
        let Some((columns, expressions)) = &self.map else { return Ok(row.clone()) };
        let values = columns.iter().zip(expressions.iter()).map(|(column, expression)| {
            expression.value(scope).map_err(|error| {
                let text = format!("column {column:?}: {}", error.message());
                ItemError::new(ErrorKind::PROCESS, text).in_columns(&[column])
            })
        });
        Ok(Row::new(columns.clone(), values.collect::<Result<_, _>>()?))
    }
}

#[derive(Debug)]
pub(super) struct RowProcessor {
    process: Process,
    parameters: Names,
}

impl RowProcessor {
    pub(super) fn new(process: Process, parameters: Names) -> Self {
        Self { process, parameters }
    }
}

impl ItemProcessor<Row> for RowProcessor {
    type Output = Row;

    async fn process(&mut self, row: &Row) -> Result<Option<Row>, ItemError> {
        let Self { process, parameters } = self;
        let scope = Scope { row: Some(row), parameters, others: &Names::new() };
        process.check(row, &scope)?;
        if let Some(filter) = &process.filter
            && !filter.is_true(&scope)?
        {
            return Ok(None);
        }
        let mapped = process.mapped(row, &scope)?;
        let Some(columns) = &process.project else { return Ok(Some(mapped)) };
        let values = columns.iter().map(|column| mapped.value(column).cloned());
        Ok(Some(Row::new(columns.clone(), values.collect::<Result<_, _>>()?)))
    }
}
