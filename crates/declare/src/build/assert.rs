//! Assert steps: run queries and compare their results with what is expected.

use super::names::{ParameterNames, hinted};
use super::{Builder, Built};
use crate::expression::{Expression, Scope};
use crate::model::{AssertFile, Names, Severity};
use crate::template::Template;
use std::sync::Arc;
use tidemill_domain::item::{ErrorKind, ItemError, Row, Value};
use tidemill_domain::job::{ExecutionContext, ExitStatus};
use tidemill_engine::item::sql::{CursorReader, Database};
use tidemill_engine::job::{Step, StepScope, TaskletScope};

/// Rows are counted one by one, and more of them say nothing new.
const ROWS_MAX: i64 = 1_000_000;

struct Assertion {
    query: Template,
    expect: Arc<Expression>,
    file: AssertFile,
    connection: Option<Database>,
}

impl Builder<'_> {
    /// All assertions are evaluated, so that all broken ones are reported at once.
    pub(super) fn assertions(&self, name: &str, files: &[AssertFile]) -> Built<Step> {
        let assertion = |file: &AssertFile| {
            Ok(Assertion {
                query: self.parsed(&file.query, Template::parse_sql, "correct the text")?,
                expect: self.expression(&file.expect)?,
                file: file.clone(),
                connection: self.connection(file.connection.as_ref())?,
            })
        };
        let all: Arc<[Assertion]> = files.iter().map(assertion).collect::<Built<_>>()?;
        let declared = self.parameter_names();
        Ok(Step::tasklet(name, move |scope| evaluate(all.clone(), declared.clone(), scope)))
    }
}

async fn evaluate(
    all: Arc<[Assertion]>,
    declared: ParameterNames,
    mut scope: TaskletScope,
) -> Result<(), ItemError> {
    let names = declared.in_step(scope.step());
    let (mut failed, mut warned) = (Vec::new(), Vec::new());
    for assertion in all.iter() {
        let (value, checked) = assertion.check(scope.step(), &names).await?;
        if let Some(name) = &assertion.file.set {
            scope.context().put(&name.value, value.to_context());
        }
        let Err(reason) = checked else { continue };
        match assertion.file.severity {
            Severity::Fail => failed.push(reason),
            Severity::Warn => warned.push(format!("warning: {reason}")),
        }
    }
    let text = [&failed[..], &warned[..]].concat().join("; ");
    if !failed.is_empty() {
        return Err(ItemError::new(ErrorKind::VALIDATION, text));
    }
    if !warned.is_empty() {
        // Without the values, which are data.
        tracing::warn!(step = scope.step().step(), job = scope.step().job(), "data is not as expected");
        scope.set_exit(ExitStatus::completed().describe(text));
    }
    Ok(())
}

impl Assertion {
    /// The value, and whether it is as expected. The outer error means that the query failed.
    async fn check(
        &self,
        scope: &StepScope,
        names: &Names,
    ) -> Result<(Value, Result<(), String>), ItemError> {
        let (first, rows) = self.rows(scope, names).await?;
        let value = first.as_ref().and_then(|row| row.values().first()).cloned().unwrap_or(Value::Null);
        let found = value.clone();
        let now = scope.store().read().await?.now().await?;
        let others = [("value", value), ("rows", rows.into()), ("now", now.into())];
        let others: Names = others.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
        let variables = Scope { row: first.as_ref(), parameters: names, others: &others };
        let trouble = match self.expect.is_true(&variables) {
            Ok(true) => return Ok((found, Ok(()))),
            Ok(false) => String::new(),
            Err(_) if first.is_none() => ", and the query returned no row".to_owned(),
            Err(error) => format!(", which cannot be evaluated: {}", error.message()),
        };
        let used = self.expect.variables().iter();
        let used = used.filter_map(|(name, _)| Some((name.clone(), others.get(name)?)));
        let fields = self.expect.fields("row").into_iter();
        let fields =
            fields.filter_map(|(name, _)| Some((format!("row.{name}"), first.as_ref()?.value(&name).ok()?)));
        let mut parts: Vec<String> =
            used.chain(fields).map(|(name, value)| format!("{name} = {}", shown(value))).collect();
        if parts.is_empty() {
            parts.push(format!("rows = {rows}"));
        }
        let expected = self.file.expect.value.trim();
        Ok((found, Err(format!("expected {expected}{trouble}; found {}", parts.join(", ")))))
    }

    /// The first row, and the number of rows up to the limit.
    async fn rows(&self, scope: &StepScope, names: &Names) -> Result<(Option<Row>, i64), ItemError> {
        let database = self.connection.clone().unwrap_or_else(|| Database::of(scope.store()));
        let query = hinted(&self.query, scope).bind(names, &database).map_err(ItemError::fatal)?;
        let mut reader = CursorReader::new("assert", database, query);
        reader.open(&ExecutionContext::new()).await?;
        let (mut first, mut rows) = (None, 0);
        while rows < ROWS_MAX
            && let Some(row) = reader.read().await?
        {
            first.get_or_insert(row);
            rows += 1;
        }
        reader.close().await;
        Ok((first, rows))
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Text(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}
