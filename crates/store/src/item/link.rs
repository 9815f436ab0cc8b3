//! A reader's connection: its own or, for a database in memory, the store's only one.

use crate::error::StoreError;
use crate::item::failure::{fatal, reading};
use crate::item::pages::NullKeys;
use crate::item::query::{Rows, SqlQuery};
use crate::item::row::Item;
use crate::item::{mysql, postgres, sqlite};
use crate::store::Store;
use crate::tx::Tx;
use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnection;
use std::collections::BTreeSet;
use tidemill_domain::item::{ErrorKind, ItemError, Value};

/// Attempts to get the only connection of a database in memory, each as long as its pool waits.
const WAITS_MAX: u32 = 12;

pub(crate) enum Link {
    /// A pooler may give each transaction another server connection.
    Postgres {
        connection: PgConnection,
        is_pooled: bool,
    },
    Sqlite(SqliteConnection),
    MySql(MySqlConnection),
    /// The only connection of a database in memory, borrowed for one statement at a time.
    Shared(Store),
}

/// A prepared query.
pub(crate) enum Plan {
    Postgres(postgres::Plan),
    Sqlite(sqlite::Plan),
    MySql(mysql::Plan),
}

impl Plan {
    pub(crate) fn names(&self) -> &[String] {
        match self {
            Self::Postgres(plan) => plan.names(),
            Self::Sqlite(plan) => plan.names(),
            Self::MySql(plan) => plan.names(),
        }
    }

    fn places(&self) -> usize {
        match self {
            Self::Postgres(plan) => plan.places(),
            Self::Sqlite(plan) => plan.places(),
            Self::MySql(plan) => plan.places(),
        }
    }
}

impl Link {
    pub(crate) async fn prepare(&mut self, sql: &str) -> Result<Plan, ItemError> {
        self.begin_if_pooled().await?;
        let plan = match self {
            Self::Postgres { connection, .. } => Plan::Postgres(postgres::prepare(connection, sql).await?),
            Self::Sqlite(connection) => Plan::Sqlite(sqlite::prepare(connection, sql).await?),
            Self::MySql(connection) => Plan::MySql(mysql::prepare(connection, sql).await?),
            Self::Shared(store) => {
                let mut tx = borrowed(store).await?;
                Plan::Sqlite(sqlite::prepare(shared(&mut tx)?, sql).await?)
            }
        };
        self.end_if_pooled().await?;
        Ok(plan)
    }

    /// Prepares the author's query and checks that it has as many placeholders as values: SQLite would bind null to a
    /// missing one, and the placeholders of a page would be taken for the author's.
    pub(crate) async fn prepare_query(&mut self, query: &SqlQuery) -> Result<Plan, ItemError> {
        let plan = self.prepare(query.text()).await?;
        query.check_places(plan.places())?;
        Ok(plan)
    }

    pub(crate) async fn fetch(&mut self, plan: &Plan, values: &[Value]) -> Result<Vec<Item>, ItemError> {
        self.begin_if_pooled().await?;
        let items = match (&mut *self, plan) {
            (Self::Postgres { connection, .. }, Plan::Postgres(plan)) => {
                postgres::fetch(connection, plan, values, Rows::All).await?
            }
            (Self::Sqlite(connection), Plan::Sqlite(plan)) => {
                sqlite::fetch(connection, plan, values, Rows::All).await?
            }
            (Self::MySql(connection), Plan::MySql(plan)) => mysql::fetch(connection, plan, values).await?,
            (Self::Shared(store), Plan::Sqlite(plan)) => {
                let mut tx = borrowed(store).await?;
                sqlite::fetch(shared(&mut tx)?, plan, values, Rows::All).await?
            }
            _ => return Err(fatal("a query was prepared for another database")),
        };
        self.end_if_pooled().await?;
        Ok(items)
    }

    /// Where rows with a null in one of these columns of the author's query are, when they order its rows. PostgreSQL puts
    /// them last; its catalogue says which columns are never null. That of a table with children says nothing about the
    /// rows of its children, and a constraint that is not valid says nothing about old rows.
    pub(crate) async fn null_keys(
        &mut self,
        query: &SqlQuery,
        plan: &Plan,
        keys: &[usize],
    ) -> Result<NullKeys, ItemError> {
        let Plan::Postgres(plan) = plan else { return Ok(NullKeys::Never) };
        let origins: Option<Vec<String>> = keys.iter().map(|key| plan.origin(*key)).collect();
        let Some(origins) = origins else { return Ok(NullKeys::Returned) };
        if query.may_make_nulls() {
            return Ok(NullKeys::Hidden);
        }
        let distinct: BTreeSet<&String> = origins.iter().collect();
        let never_null = format!(
            "select count(*)\nfrom pg_catalog.pg_attribute a\njoin pg_catalog.pg_class c on c.oid = a.attrelid\n\
             where a.attnotnull and c.relkind = 'r' and not c.relhassubclass and (a.attrelid, a.attnum) in ({})\n\
             and not exists (select 1 from pg_catalog.pg_constraint k where k.conrelid = a.attrelid\n\
             and k.contype = 'n' and k.conkey = array[a.attnum] and not k.convalidated)",
            origins.join(", ")
        );
        let count = self.scalar(&never_null, &[]).await?;
        let is_never = count.and_then(|count| usize::try_from(count).ok()) == Some(distinct.len());
        Ok(if is_never { NullKeys::Never } else { NullKeys::Hidden })
    }

    /// The single number that a query returns.
    pub(crate) async fn scalar(&mut self, sql: &str, values: &[Value]) -> Result<Option<i64>, ItemError> {
        let plan = self.prepare(sql).await?;
        let items = self.fetch(&plan, values).await?;
        let Some(Ok(row)) = items.first() else { return Ok(None) };
        Ok(match row.values() {
            [Value::Long(number)] => Some(*number),
            _ => None,
        })
    }

    /// Behind a pooler only a transaction stays on one server connection, and that may hold other clients' statements
    /// under the names that our driver is about to use.
    async fn begin_if_pooled(&mut self) -> Result<(), ItemError> {
        if let Self::Postgres { connection, is_pooled: true } = self {
            sqlx::raw_sql("begin read only; deallocate all").execute(connection).await.map_err(reading)?;
        }
        Ok(())
    }

    async fn end_if_pooled(&mut self) -> Result<(), ItemError> {
        if let Self::Postgres { connection, is_pooled: true } = self {
            sqlx::raw_sql("deallocate all; commit").execute(connection).await.map_err(reading)?;
        }
        Ok(())
    }
}

/// The step writes through the same connection, so this may wait until its chunk has committed.
async fn borrowed(store: &Store) -> Result<Tx, ItemError> {
    let mut waits = 0;
    loop {
        match store.read().await {
            Err(StoreError::ConnectionsExhausted(_) | StoreError::Busy(_)) if waits < WAITS_MAX => waits += 1,
            Err(error) => {
                let kind = error.item_kind().unwrap_or(ErrorKind::FATAL);
                return Err(ItemError::of(kind, error));
            }
            Ok(tx) => return Ok(tx),
        }
    }
}

fn shared(tx: &mut Tx) -> Result<&mut SqliteConnection, ItemError> {
    tx.sqlite().ok_or_else(|| fatal("the store is not in memory"))
}
