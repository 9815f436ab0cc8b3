//! The columns of a table, and their types.

use super::Target;
use crate::item::failure::{fatal, item_error};
use crate::statement::Database;
use crate::store::Store;
use crate::url::Dialect;
use sqlx::postgres::types::Oid;
use sqlx::{PgConnection, SqliteConnection};
use tidemill_domain::item::{ErrorKind, ItemError};

#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    /// The database computes it, so it cannot be written.
    pub(super) is_computed: bool,
    /// PostgreSQL: its table has rules, or is a view.
    pub(super) has_rules: bool,
    pub(super) type_name: String,
    /// PostgreSQL: the type beneath all domains.
    pub(super) base: Option<Base>,
}

#[derive(Clone, Debug)]
pub(super) struct Base {
    pub(super) schema: String,
    pub(super) name: String,
    pub(super) oid: Oid,
    pub(super) array: Oid,
    pub(super) is_enum: bool,
}

/// In a message.
const TABLES_SHOWN_MAX: usize = 20;

/// In the order of the table.
pub(super) async fn columns(store: &Store, table: &Target) -> Result<Vec<Column>, ItemError> {
    let mut tx = store.read().await.map_err(|error| {
        let kind = error.item_kind().unwrap_or(ErrorKind::FATAL);
        ItemError::of(kind, error)
    })?;
    let failed = |error| item_error(error, ErrorKind::FATAL);
    let columns = match tx.database() {
        Database::Postgres(connection) => postgres_columns(connection, table).await,
        Database::Sqlite(connection) => sqlite_columns(connection, table).await,
    };
    let columns = columns.map_err(failed)?;
    if !columns.is_empty() {
        return Ok(columns);
    }
    let tables = match tx.database() {
        Database::Postgres(connection) => postgres_tables(connection).await,
        Database::Sqlite(connection) => sqlite_tables(connection).await,
    };
    Err(fatal(missing(&table.quoted, &tables.map_err(failed)?)))
}

fn missing(table: &str, tables: &[String]) -> String {
    let (shown, more) = tables.split_at(tables.len().min(TABLES_SHOWN_MAX));
    let known = match (shown, more) {
        ([], _) => {
            "there is none beside those of Tidemill and Spring Batch; create it in a step before, or by hand"
                .to_owned()
        }
        (_, []) => format!("there are: {}", shown.join(", ")),
        _ => format!("there are: {} and others", shown.join(", ")),
    };
    format!("there is no table {table}; {known}")
}

/// Fails if it is missing or computed by the database.
pub(super) fn find<'a>(
    known: &'a [Column],
    name: &str,
    dialect: Dialect,
    table: &str,
) -> Result<&'a Column, ItemError> {
    let Some(column) = known.iter().find(|column| is_same(&column.name, name, dialect)) else {
        let names: Vec<&str> = known.iter().map(|column| column.name.as_str()).collect();
        return Err(fatal(format!("table {table} has no column {name:?}; it has {}", names.join(", "))));
    };
    if column.is_computed {
        return Err(fatal(format!(
            "column {name:?} of {table} is computed by the database and cannot be written"
        )));
    }
    Ok(column)
}

/// SQLite ignores the case of names.
pub(super) fn is_same(one: &str, other: &str, dialect: Dialect) -> bool {
    match dialect {
        Dialect::Postgres => one == other,
        Dialect::Sqlite => one.eq_ignore_ascii_case(other),
    }
}

crate::statement::row! {
    struct PgColumnRow {
        name: String,
        is_computed: bool,
        has_rules: bool,
        type_name: String,
        base_schema: String,
        base_name: String,
        base_oid: Oid,
        base_array: Oid,
        is_enum: bool,
    }
}

/// Resolves domains to the stored type.
async fn postgres_columns(connection: &mut PgConnection, table: &Target) -> Result<Vec<Column>, sqlx::Error> {
    let rows: Vec<PgColumnRow> = sqlx::query_as(
        "with recursive base as (
             select a.attnum, a.attname::text as name, a.attgenerated <> '' as is_computed,
                 c.relhasrules as has_rules, format_type(a.atttypid, a.atttypmod) as type_name, a.atttypid as oid
             from pg_attribute a
             join pg_class c on c.oid = a.attrelid
             where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped
             union all
             select base.attnum, base.name, base.is_computed, base.has_rules, base.type_name, t.typbasetype
             from base
             join pg_type t on t.oid = base.oid
             where t.typtype = 'd'
         )
         select base.name, base.is_computed, base.has_rules, base.type_name, n.nspname::text as base_schema,
             t.typname::text as base_name, t.oid as base_oid, t.typarray as base_array,
             t.typtype = 'e' as is_enum
         from base
         join pg_type t on t.oid = base.oid
         join pg_namespace n on n.oid = t.typnamespace
         where t.typtype <> 'd'
         order by base.attnum",
    )
    .bind(&table.quoted)
    .fetch_all(connection)
    .await?;
    let column = |row: PgColumnRow| Column {
        name: row.name,
        is_computed: row.is_computed,
        has_rules: row.has_rules,
        type_name: row.type_name,
        base: Some(Base {
            schema: row.base_schema,
            name: row.base_name,
            oid: row.base_oid,
            array: row.base_array,
            is_enum: row.is_enum,
        }),
    };
    Ok(rows.into_iter().map(column).collect())
}

async fn postgres_tables(connection: &mut PgConnection) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "select c.relname::text
         from pg_class c
         where c.relkind in ('r', 'p', 'v', 'f') and pg_table_is_visible(c.oid)
             and c.relnamespace <> 'pg_catalog'::regnamespace
             and c.relname !~ '^(tidemill_|batch_|render_|outbox_event|aep_field_mapping$)'
             and not (c.relkind = 'v' and pg_get_viewdef(c.oid) like '%tidemill\\_%')
         order by c.relname
         limit $1",
    )
    .bind(TABLES_SHOWN_MAX as i64 + 1)
    .fetch_all(connection)
    .await
}

async fn sqlite_columns(
    connection: &mut SqliteConnection,
    table: &Target,
) -> Result<Vec<Column>, sqlx::Error> {
    let found = sqlx::query_as(
        "select name, type, hidden
         from pragma_table_xinfo(?1, ?2)
         order by cid",
    )
    .bind(&table.table)
    .bind(&table.schema)
    .fetch_all(connection)
    .await;
    let rows: Vec<(String, String, i64)> = match found {
        // An unknown schema has no tables.
        Err(sqlx::Error::Database(answer)) if answer.message().starts_with("unknown database") => Vec::new(),
        found => found?,
    };
    let column = |(name, type_name, hidden): (String, String, i64)| Column {
        name,
        // 2 and 3 are computed columns; 1 is a column that a virtual table hides.
        is_computed: hidden != 0,
        has_rules: false,
        type_name,
        base: None,
    };
    Ok(rows.into_iter().map(column).collect())
}

async fn sqlite_tables(connection: &mut SqliteConnection) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "select name
         from sqlite_schema
         where type in ('table', 'view') and name not like 'sqlite\\_%' escape '\\'
             and name not like 'tidemill\\_%' escape '\\' and name not like 'batch\\_%' escape '\\'
             and name not like 'render\\_%' escape '\\' and name not like 'outbox\\_event%' escape '\\'
             and name <> 'aep_field_mapping'
             and not (type = 'view' and sql like '%tidemill\\_%' escape '\\')
         order by name
         limit ?1",
    )
    .bind(TABLES_SHOWN_MAX as i64 + 1)
    .fetch_all(connection)
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_table_is_told_with_those_that_are_there() {
        let tables: Vec<String> = (0..=TABLES_SHOWN_MAX).map(|n| format!("t{n}")).collect();

        assert!(missing("\"a\"", &[]).contains("there is none beside"));
        assert!(missing("\"a\"", &tables[..2]).ends_with("there are: t0, t1"));
        assert!(missing("\"a\"", &tables).ends_with("t19 and others"));
    }
}
