//! Lookups of a chunk step: tables in memory, loaded once for each run of the step.

use super::endpoint::Make;
use super::{Builder, Built};
use crate::expression::{Expression, Scope};
use crate::model::{ChunkFile, LookupFile, Names, OnMissing};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tidemill_domain::item::{ErrorKind, ItemError, Row, Value};
use tidemill_domain::job::StepExecutionId;
use tidemill_engine::item::{BoxReader, Lookup};
use tidemill_engine::job::StepScope;
use tokio::sync::OnceCell;

/// A lookup of the job file.
pub(super) struct LookupPlan {
    file: LookupFile,
    key: Vec<String>,
    matching: Vec<Arc<Expression>>,
    reader: Make<BoxReader<Row>>,
    /// The tables of the runs that are active.
    runs: Mutex<Vec<(StepExecutionId, Weak<OnceCell<Lookup>>)>>,
}

/// A lookup in a run of the step. The threads of the run share the table.
pub(super) struct LookupRun {
    plan: Arc<LookupPlan>,
    step: StepScope,
    table: Arc<OnceCell<Lookup>>,
}

impl Builder<'_> {
    pub(super) fn lookup(&self, chunk: &ChunkFile, file: &LookupFile) -> Built<Arc<LookupPlan>> {
        let matching = file.matching.iter().map(|text| self.expression(text)).collect::<Built<_>>()?;
        let reader = self.reader(&ChunkFile { read: file.read.clone(), ..chunk.clone() })?;
        let key = file.key.iter().map(|column| column.value.clone()).collect();
        Ok(Arc::new(LookupPlan { file: file.clone(), key, matching, reader, runs: Mutex::default() }))
    }
}

impl LookupRun {
    pub(super) fn new(plan: &Arc<LookupPlan>, step: &StepScope) -> Self {
        let mut runs = plan.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.retain(|(_, table)| table.strong_count() > 0);
        let run = step.step_execution();
        let table = runs.iter().find(|(known, _)| *known == run).and_then(|(_, table)| table.upgrade());
        let table = table.unwrap_or_else(|| {
            let table = Arc::new(OnceCell::new());
            runs.push((run, Arc::downgrade(&table)));
            table
        });
        Self { plan: plan.clone(), step: step.clone(), table }
    }

    /// The names of the columns that it adds.
    pub(super) fn columns(&self) -> impl Iterator<Item = &str> {
        self.plan.file.columns.iter().map(|(column, _)| column.value.as_str())
    }

    /// Adds the values of the columns for a row.
    pub(super) async fn find(
        &self,
        row: &Row,
        parameters: &Names,
        values: &mut Vec<Value>,
    ) -> Result<(), ItemError> {
        let LookupPlan { file, key: columns, matching, reader, .. } = &*self.plan;
        let load = || async {
            Lookup::load(&file.name.value, reader(&self.step, parameters)?, columns, file.max_rows).await
        };
        let table = self.table.get_or_try_init(load).await?;
        let scope = Scope { row: Some(row), parameters, others: &Names::new() };
        let key: Vec<Value> = match matching.as_slice() {
            [] => columns.iter().map(|column| row.value(column).cloned()).collect::<Result<_, _>>()?,
            matching => matching.iter().map(|value| value.value(&scope)).collect::<Result<_, _>>()?,
        };
        let Some(found) = table.find(&key) else {
            values.extend(file.columns.iter().map(|_| Value::Null));
            return if file.on_missing == OnMissing::Null { Ok(()) } else { Err(self.missing(table, &key)) };
        };
        for (_, column) in &file.columns {
            values.push(found.value(&column.value).map_err(ItemError::fatal)?.clone());
        }
        Ok(())
    }

    /// Does not show the key, which may be secret.
    fn missing(&self, table: &Lookup, key: &[Value]) -> ItemError {
        let LookupPlan { file, key: columns, matching, .. } = &*self.plan;
        let used: Vec<String> = match matching.as_slice() {
            [] => columns.clone(),
            all => all.iter().flat_map(|one| one.fields("row")).map(|(column, _)| column).collect(),
        };
        let used: Vec<&str> = used.iter().map(String::as_str).collect();
        let hint = table.hint(key).map(|hint| format!("; {hint}")).unwrap_or_default();
        let text = format!("the lookup {:?} has no row for {}{hint}", file.name.value, used.join(", "));
        let kind = if file.on_missing == OnMissing::Fail { ErrorKind::FATAL } else { ErrorKind::VALIDATION };
        ItemError::new(kind, text).in_columns(&used)
    }
}
