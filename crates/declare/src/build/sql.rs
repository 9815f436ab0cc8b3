//! SQL steps: statements in one transaction.

use super::Builder;
use super::names::hinted;
use crate::model::SqlFile;
use crate::template::Template;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_engine::item::sql::Database;
use tidemill_engine::job::{SqlStatements, Step};

impl Builder<'_> {
    pub(super) fn sql(&mut self, name: &str, file: &SqlFile) -> Option<Step> {
        let read: Vec<Option<Template>> =
            file.statements.iter().map(|text| self.sql_template(text)).collect();
        let statements: Vec<Template> = read.into_iter().collect::<Option<_>>()?;
        let connection = self.connection(file.connection.as_ref())?;
        let declared = self.parameter_names();
        Some(Step::sql(name, move |scope| {
            let names = declared.in_step(scope);
            let database = connection.clone().unwrap_or_else(|| Database::of(scope.store()));
            let bound = statements.iter().map(|statement| hinted(statement, scope).bind(&names, &database));
            let bound: Vec<_> =
                bound.collect::<Result<_, _>>().map_err(|error| ItemError::of(ErrorKind::FATAL, error))?;
            let statements = SqlStatements::new(bound);
            Ok(match &connection {
                Some(database) => statements.on(database.clone()),
                None => statements,
            })
        }))
    }
}
