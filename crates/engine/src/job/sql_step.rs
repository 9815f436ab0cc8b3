//! SQL steps: statements in the step's transaction or on another database.

use crate::job::tasklet::{TaskletScope, repeat};
use crate::job::{Delivery, Step, StepScope};
use serde_json::Value as Json;
use tidemill_domain::item::{ItemError, Phase, Value};
use tidemill_domain::job::ExecutionContext;
use tidemill_store::item::{CursorReader, Database, SqlQuery};

/// Context key: the statements have committed. A restart then only ends the step.
const DONE_KEY: &str = "tidemill.sql.done";

impl Step {
    /// A step that runs SQL statements: in the step's transaction, exactly once, unless they name another database.
    pub fn sql(
        name: impl Into<String>,
        statements: impl Fn(&StepScope) -> Result<SqlStatements, ItemError> + Send + Sync + 'static,
    ) -> Self {
        Self::running(name, "sql", move |task| {
            let statements = statements(&task.scope);
            Box::pin(async move {
                let statements = statements?;
                let is_own = statements.database.is_none();
                let delivery = if is_own { Delivery::ExactlyOnce } else { Delivery::AtLeastOnce };
                task.record_plan(None, delivery).await?;
                repeat(task, |scope| statements.run(scope)).await
            })
        })
    }
}

/// Statements that run in sequence, all or none. Values are bound, not formatted into the text.
///
/// ```
/// use tidemill_engine::item::sql::SqlQuery;
/// use tidemill_engine::job::{Job, SqlStatements, Step};
///
/// let clean = Step::sql("clean", |scope| {
///     let delete = SqlQuery::new("delete from staging where day = $1").bind(scope.text("day")?);
///     Ok(SqlStatements::new([delete]))
/// });
/// assert!(Job::new("nightly").step(clean).check().is_ok());
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct SqlStatements {
    statements: Vec<SqlQuery>,
    values: Vec<(String, SqlQuery)>,
    database: Option<Database>,
}

impl SqlStatements {
    /// Statements in the step's transaction, on the job's own database: exactly once.
    pub fn new(statements: impl IntoIterator<Item = SqlQuery>) -> Self {
        Self { statements: statements.into_iter().collect(), values: Vec::new(), database: None }
    }

    tidemill_domain::setters! {
        /// Runs them on another database, in their own transaction: at least once.
        pub fn on(self, database: Database) { self.database = Some(database) }
        /// Runs a query after the statements, and keeps the first column of its first row in the step's context. See
        /// [`Step::promote`].
        pub fn value(self, name: impl Into<String>, query: SqlQuery) { self.values.push((name.into(), query)) }
    }

    async fn run(&self, mut scope: TaskletScope) -> Result<(), ItemError> {
        if scope.context().get(DONE_KEY).is_some() {
            return Ok(());
        }
        let changed = match &self.database {
            _ if self.statements.is_empty() => 0,
            None => scope.tx().await?.run_statements(&self.statements).await?,
            Some(database) => database.run_statements(&self.statements).await?,
        };
        scope.contribution().write += changed;
        for (name, query) in &self.values {
            let value = self.first_value(&mut scope, query).await;
            let value = value
                .map_err(|error| error.about(Phase::Read, format_args!("the query of the value {name:?}")))?;
            scope.context().put(name, value);
        }
        scope.context().put(DONE_KEY, true);
        Ok(())
    }

    /// In the same transaction, or on the other database after its commit.
    async fn first_value(&self, scope: &mut TaskletScope, query: &SqlQuery) -> Result<Json, ItemError> {
        let row = match &self.database {
            None => scope.tx().await?.fetch_first(query).await?,
            Some(database) => {
                let mut reader = CursorReader::new("value", database.clone(), query.clone());
                reader.open(&ExecutionContext::new()).await?;
                let row = reader.read().await;
                reader.close().await;
                row?
            }
        };
        Ok(row.as_ref().and_then(|row| row.values().first()).map_or(Json::Null, Value::to_context))
    }
}
