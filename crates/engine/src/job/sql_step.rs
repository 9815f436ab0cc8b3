//! SQL steps: statements in the step's transaction or on another database.

use crate::job::tasklet::{TaskletScope, repeat};
use crate::job::{Delivery, Step, StepScope};
use tidemill_domain::item::ItemError;
use tidemill_store::item::{Database, SqlQuery};

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
    database: Option<Database>,
}

impl SqlStatements {
    /// Statements in the step's transaction, on the job's own database: exactly once.
    pub fn new(statements: impl IntoIterator<Item = SqlQuery>) -> Self {
        Self { statements: statements.into_iter().collect(), database: None }
    }

    tidemill_domain::setters! {
        /// Runs them on another database, in their own transaction: at least once.
        pub fn on(self, database: Database) { self.database = Some(database) }
    }

    async fn run(&self, mut scope: TaskletScope) -> Result<(), ItemError> {
        let changed = match &self.database {
            None => scope.tx().await?.run_statements(&self.statements).await?,
            Some(database) => database.run_statements(&self.statements).await?,
        };
        scope.contribution().write += changed;
        Ok(())
    }
}
