//! How the rows of a chunk step are processed: checked, joined, filtered and mapped.

use super::file::order;
use super::lookup::{LookupPlan, LookupRun};
use super::{Builder, Built};
use crate::expression::{Expression, Scope};
use crate::model::{ChunkFile, ColumnRule, Names, WriteFile};
use std::borrow::Cow;
use std::sync::Arc;
use tidemill_domain::item::{ColumnRules, ErrorKind, ItemError, Row, Value, is_missing};
use tidemill_engine::item::SortedReader;
use tidemill_engine::job::{ItemProcessor, StepScope};

/// Columns and their expressions.
type Mapping = (Arc<[String]>, Arc<[Arc<Expression>]>);

#[derive(Clone)]
pub(super) struct Process {
    drops_duplicates: bool,
    rules: Arc<[Rule]>,
    /// Whether rows may lack columns, as in JSON.
    is_loose: bool,
    lookups: Arc<[Arc<LookupPlan>]>,
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
            drops_duplicates: !file.dedupe.is_empty(),
            rules: file.validate.iter().map(|rule| self.rule(rule)).collect::<Built<_>>()?,
            is_loose: chunk.read.value.may_lack_columns(),
            lookups: file.lookups.iter().map(|lookup| self.lookup(chunk, lookup)).collect::<Built<_>>()?,
            filter,
            map: (!file.map.is_empty()).then_some((columns, expressions)),
            project: match &chunk.write.value {
                WriteFile::File(file) => order(file, chunk).map(Into::into),
                _ => None,
            },
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
        let Self { drops_duplicates, rules, lookups, filter, map, project, .. } = self;
        let has_parts = filter.is_some() || map.is_some() || project.is_some();
        !*drops_duplicates && !has_parts && rules.is_empty() && lookups.is_empty()
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
            } else if let Some((expression, reason)) = check
                && !is_missing(value)
            {
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

pub(super) struct RowProcessor {
    process: Process,
    parameters: Names,
    lookups: Vec<LookupRun>,
    /// The columns of the last row, and those with the lookups.
    joined: Option<[Arc<[String]>; 2]>,
}

impl RowProcessor {
    pub(super) fn new(process: Process, step: &StepScope, parameters: Names) -> Self {
        let lookups = process.lookups.iter().map(|plan| LookupRun::new(plan, step)).collect();
        Self { process, parameters, lookups, joined: None }
    }

    /// The row with the columns of all lookups.
    async fn join(&mut self, row: &Row) -> Result<Row, ItemError> {
        let columns = match &self.joined {
            Some([last, joined]) if Arc::ptr_eq(last, row.columns()) => joined.clone(),
            _ => {
                let added: Vec<&str> = self.lookups.iter().flat_map(LookupRun::columns).collect();
                if let Some(twice) = added.iter().find(|added| row.value(added).is_ok()) {
                    let text = format!("a lookup adds the column {twice:?}, which the row already has");
                    return Err(ItemError::fatal(format!("{text}; give it another name in columns")));
                }
                row.columns().iter().cloned().chain(added.into_iter().map(str::to_owned)).collect()
            }
        };
        self.joined = Some([row.columns().clone(), columns.clone()]);
        let mut values = row.values().to_vec();
        for lookup in &self.lookups {
            lookup.find(row, &self.parameters, &mut values).await?;
        }
        Ok(Row::new(columns, values))
    }
}

impl ItemProcessor<Row> for RowProcessor {
    type Output = Row;

    async fn process(&mut self, row: &Row) -> Result<Option<Row>, ItemError> {
        if self.process.drops_duplicates && SortedReader::is_duplicate(row) {
            return Ok(None);
        }
        let none = Names::new();
        self.process.check(row, &Scope { row: Some(row), parameters: &self.parameters, others: &none })?;
        let row = match self.lookups.is_empty() {
            true => Cow::Borrowed(row),
            false => Cow::Owned(self.join(row).await?),
        };
        let Self { process, parameters, .. } = self;
        let scope = Scope { row: Some(&row), parameters, others: &none };
        if let Some(filter) = &process.filter
            && !filter.is_true(&scope)?
        {
            return Ok(None);
        }
        let mapped = process.mapped(&row, &scope)?;
        let Some(columns) = &process.project else { return Ok(Some(mapped)) };
        let values = columns.iter().map(|column| mapped.value(column).cloned());
        Ok(Some(Row::new(columns.clone(), values.collect::<Result<_, _>>()?)))
    }
}
