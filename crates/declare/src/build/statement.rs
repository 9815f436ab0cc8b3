//! The writer that runs a statement for each item.

use super::endpoint::Make;
use super::names::hinted;
use super::{Builder, Built};
use crate::model::StatementFile;
use crate::template::{ROW, Template};
use tidemill_domain::item::{ItemError, Row};
use tidemill_engine::item::sql::Database;
use tidemill_engine::item::{BoxWriter, StatementWriter};

impl Builder<'_> {
    pub(super) fn statement(&self, file: &StatementFile) -> Built<Make<BoxWriter<Row>>> {
        let parse = |text: &str| match file.is_call {
            true => Template::parse_row_sql(&format!("call {text}")),
            false => Template::parse_row_sql(text),
        };
        let template = self.parsed(&file.statement, parse, "correct the text")?;
        let connection = self.connection(file.connection.as_ref())?;
        let must_change = file.must_change;
        Ok(Box::new(move |scope, names| {
            let database = connection.clone().unwrap_or_else(|| Database::of(scope.store()));
            let (template, mut names) = (hinted(&template, scope), names.clone());
            let columns: Vec<String> = template.row_columns().map(str::to_owned).collect();
            let place = database.clone();
            let writer = StatementWriter::new(move |row: &Row| {
                for column in &columns {
                    let value = row.value(column).map_err(ItemError::fatal)?;
                    names.insert(format!("{ROW}{column}"), value.clone());
                }
                let statement = template.bind(&names, &place).map_err(ItemError::fatal)?;
                Ok(if must_change { statement.must_change() } else { statement })
            });
            Ok(BoxWriter::new(if connection.is_some() { writer.on(database) } else { writer }))
        }))
    }
}
