//! Statements on migrations.

use super::{Answer, Connection, Tx};
use crate::row::MigrationRow;
use crate::{postgres, sqlite};

impl Tx {
    pub(crate) async fn migration_lock(&mut self) -> Answer<()> {
        on_either!(self, migration::lock())
    }

    pub(crate) async fn migration_create_table(&mut self) -> Answer<()> {
        on_either!(self, migration::create_table())
    }

    pub(crate) async fn migration_table_exists(&mut self) -> Answer<bool> {
        on_either!(self, migration::table_exists())
    }

    pub(crate) async fn migration_list(&mut self) -> Answer<Vec<MigrationRow>> {
        on_either!(self, migration::list())
    }

    pub(crate) async fn migration_statement(&mut self, statement: &'static str) -> Answer<()> {
        on_either!(self, migration::statement(statement))
    }

    pub(crate) async fn migration_record(&mut self, row: &MigrationRow) -> Answer<()> {
        on_either!(self, migration::record(row))
    }
}
