//! Attached tables: existing outboxes that relays also serve. This file attaches them; [`look`] and [`serve`] are for
//! relays, [`failed`] for operators, and [`stats`] for metrics.
//!
//! PostgreSQL only. SQLite cannot compute a slot in an index, and its relays have one host and one writer anyway.

pub mod failed;
pub mod look;
pub(crate) mod row;
pub mod serve;
pub mod stats;

use super::SLOTS;
use crate::error::{Result, StoreError};
use crate::statement::stored;
use crate::statements::outbox::attached as statement;
use crate::store::Store;
use crate::tx::Outbox;
use sqlx::{Connection as _, PgConnection};
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::code::Code;
use tidemill_domain::outbox::attached::check::{Fault, Findings, STATUSES, TableSchema, check};
use tidemill_domain::outbox::attached::{AttachedTable, Index, TableName};
use tidemill_domain::time::Timestamp;

pub use failed::{FailedRecord, RowOrder};
pub use look::TableLook;
pub use stats::AttachedStats;

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct AttachedRecord in ("tidemill_outbox_adopted", "schema_name table_name") |row| {
        pub table: AttachedTable => row::Named::from_columns(row)?.table().map_err(|damage| sqlx::Error::Decode(Box::new(damage)))?,
        pub since: Timestamp,
        pub adopted_by: String,
    }
}

/// The result of examining a table before attaching it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Examined {
    pub warnings: Vec<String>,
    /// Statements that create the missing indexes.
    pub statements: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    #[error("attached tables need PostgreSQL")]
    Unsupported,
    /// Fix these first.
    #[error("{table} cannot be attached as it is: {} found", match faults.len() { 1 => "1 fault was".to_owned(), n => format!("{n} faults were") })]
    NotFit { table: TableName, faults: Vec<Fault> },
    #[error("{table} is not attached")]
    NotAttached { table: TableName },
    #[error("another process is creating or dropping indexes of {table}")]
    Busy { table: TableName },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl AttachError {
    pub fn code(&self) -> Code {
        match self {
            Self::Unsupported => Code::AttachUnsupported,
            Self::NotFit { .. } => Code::TableNotFit,
            Self::NotAttached { .. } => Code::NotAttached,
            Self::Busy { .. } => Code::DatabaseBusy,
            Self::Store(error) => error.code(),
        }
    }

    pub fn fix(&self) -> String {
        match self {
            Self::Unsupported => "use PostgreSQL, or write events to outbox_event".to_owned(),
            Self::NotFit { faults, .. } => match faults.as_slice() {
                [only] => only.remedy.clone(),
                _ => "fix all faults, then attach the table again".to_owned(),
            },
            Self::NotAttached { .. } => "see `tidemill outbox attached`; names are case-sensitive".to_owned(),
            Self::Busy { .. } => "wait until that is done, and try again".to_owned(),
            Self::Store(error) => error.fix(),
        }
    }

    /// One line per fault.
    pub fn why(&self) -> Option<String> {
        match self {
            Self::NotFit { faults, .. } => {
                Some(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
            }
            _ => None,
        }
    }
}

impl From<sqlx::Error> for AttachError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

impl Store {
    /// Whether a table can be attached, and what is missing. Changes nothing.
    pub async fn examine_table(&self, table: &AttachedTable) -> Result<Examined, AttachError> {
        let mut connection = self.connection_for_attaching().await?;
        let examined = examine(&mut connection, table).await;
        let _already_answered = connection.close().await;
        examined
    }

    /// Faults that keep a table from being served, each with its fix. Changes nothing, and waits for no locks.
    pub async fn table_faults(&self, table: &AttachedTable) -> Result<Vec<Fault>, AttachError> {
        let mut connection = self.connection_for_attaching().await?;
        let found = find(&mut connection, table).await;
        let _already_answered = connection.close().await;
        Ok(found?.1.faults)
    }

    /// Creates the indexes that relays need, without blocking writers; rebuilds half-made ones. It can be repeated.
    #[crate::boxed]
    pub async fn index_attached(&self, name: &TableName) -> Result<Vec<String>, AttachError> {
        let mut connection = self.connection_for_attaching().await?;
        lock_indexes(&mut connection, name).await?;
        let mut made = Vec::new();
        for index in Index::ALL {
            match statement::index_state(&mut connection, name, index).await? {
                Some(true) => continue,
                Some(false) => statement::drop_index(&mut connection, name, index).await?,
                None => {}
            }
            let made_now = statement::create_index(&mut connection, name, index).await;
            made_now.map_err(|error| cannot_index(name, index, error))?;
            made.push(name.index(index));
        }
        let _already_answered = connection.close().await;
        Ok(made)
    }

    /// Drops our indexes, without blocking writers. Refused while the table is attached.
    #[crate::boxed]
    pub async fn drop_attached_index(&self, name: &TableName) -> Result<(), AttachError> {
        let mut connection = self.connection_for_attaching().await?;
        lock_indexes(&mut connection, name).await?;
        for index in Index::ALL {
            statement::drop_index(&mut connection, name, index).await?;
        }
        let _already_answered = connection.close().await;
        Ok(())
    }

    /// A separate connection without timeouts, because indexes are made outside of transactions.
    async fn connection_for_attaching(&self) -> Result<PgConnection, AttachError> {
        let options = self.postgres_options().ok_or(AttachError::Unsupported)?;
        Ok(PgConnection::connect_with(&options).await?)
    }
}

/// We may not own the table; then its owner has to create the indexes.
fn cannot_index(name: &TableName, index: Index, error: sqlx::Error) -> AttachError {
    match error.into() {
        StoreError::NotPermitted(_) => {
            let fault = Fault {
                what: format!("only the owner of {name} may make the index {}", name.index(index)),
                remedy: format!("let the owner run: {}", statement::create_index_text(name, index)),
            };
            AttachError::NotFit { table: name.clone(), faults: vec![fault] }
        }
        other => AttachError::Store(other),
    }
}

/// One process at a time per table. It does not wait: its snapshot would block `create index concurrently`.
async fn lock_indexes(connection: &mut PgConnection, name: &TableName) -> Result<(), AttachError> {
    let is_ours: bool = sqlx::query_scalar("select pg_try_advisory_lock(hashtextextended($1, 1953066085))")
        .bind(name.quoted())
        .fetch_one(connection)
        .await?;
    if is_ours { Ok(()) } else { Err(AttachError::Busy { table: name.clone() }) }
}

/// Reads only the catalogue, so it waits for no locks.
async fn find(
    connection: &mut PgConnection,
    table: &AttachedTable,
) -> Result<(Option<TableSchema>, Findings), AttachError> {
    let name = &table.name;
    let mut found = match statement::find(&mut *connection, name).await? {
        None => None,
        Some(row) => {
            let columns = statement::columns(&mut *connection, name).await?;
            Some(TableSchema {
                is_ordinary: row.is_ordinary,
                columns: columns.into_iter().map(Into::into).collect(),
                has_unique_id: row.has_unique_id,
                may_enter: row.may_enter,
                lacking: row.lacking,
                user: row.user_name,
                disallowed: Vec::new(),
                has_sending: false,
                has_failed: false,
            })
        }
    };
    if let Some(found) = &mut found {
        found.disallowed = disallowed(connection, found, name).await?;
    }
    let mut findings = check(name, found.as_ref());
    if !statement::is_time_zone(&mut *connection, &table.time_zone).await? {
        findings.faults.push(Fault {
            what: format!("the database knows no time zone {}", table.time_zone),
            remedy: "name one as in pg_timezone_names, such as Asia/Seoul or UTC".to_owned(),
        });
    }
    Ok((found, findings))
}

async fn examine(connection: &mut PgConnection, table: &AttachedTable) -> Result<Examined, AttachError> {
    let name = &table.name;
    let (mut found, mut findings) = find(&mut *connection, table).await?;
    if !findings.faults.is_empty() {
        return Err(AttachError::NotFit { table: name.clone(), faults: findings.faults });
    }
    let mut statements = Vec::new();
    for index in Index::ALL {
        if statement::index_state(&mut *connection, name, index).await? != Some(true) {
            statements.push(statement::create_index_text(name, index));
        }
    }
    // Only with the indexes: without them this may read all of a large table.
    if let Some(found) = found.as_mut().filter(|_| statements.is_empty()) {
        found.has_sending = statement::has(&mut *connection, name, "SENDING").await?;
        found.has_failed = statement::has(&mut *connection, name, "FAILED").await?;
        findings = check(name, Some(found));
    }
    let Findings { warnings, .. } = findings;
    Ok(Examined { warnings, statements })
}

/// The statuses that a check constraint on the column rejects.
async fn disallowed(
    connection: &mut PgConnection,
    found: &TableSchema,
    name: &TableName,
) -> Result<Vec<String>, AttachError> {
    let Some(status) = found.columns.iter().find(|column| column.name == "status") else {
        return Ok(Vec::new());
    };
    let mut disallowed = Vec::new();
    // For an enum, the missing values are listed.
    let has_all =
        |labels: &Vec<String>| STATUSES.iter().all(|status| labels.iter().any(|label| label == status));
    if status.labels.as_ref().is_some_and(|labels| !has_all(labels)) {
        return Ok(disallowed);
    }
    for expression in statement::status_checks(&mut *connection, name).await? {
        let refused =
            statement::disallowed(&mut *connection, &status.type_name, &expression, &STATUSES).await?;
        disallowed.extend(refused.into_iter().filter(|word| !disallowed.contains(word)).collect::<Vec<_>>());
    }
    Ok(disallowed)
}

impl Outbox<'_> {
    /// Lets relays serve a table, or changes how. True if it is new. Examine it and create its indexes first.
    #[crate::boxed]
    pub async fn attach_table(&mut self, table: &AttachedTable, actor: &Actor) -> Result<bool, AttachError> {
        let now = self.now().await?;
        let connection = self.postgres().ok_or(AttachError::Unsupported)?;
        let is_new = statement::save(&mut *connection, table, now, &actor.name).await?;
        if is_new {
            // Rows in flight when the table was detached have been marked since.
            statement::forget_table(connection, &table.name).await?;
        }
        let entry = AuditEntry::new(actor.clone(), "outbox.attach", &object(&table.name))
            .from_to(if is_new { "none" } else { "attached" }, &table.topic);
        self.audit().record(&entry).await?;
        // Relays look at once.
        self.wake(SLOTS);
        Ok(is_new)
    }

    /// Stops serving a table. Waits for relays that are claiming rows; rows already claimed are still settled. Deletes
    /// attempts and skips: they belong to this attachment, and the table may be another one next time.
    #[crate::boxed]
    pub async fn detach_table(&mut self, name: &TableName, actor: &Actor) -> Result<(), AttachError> {
        let connection = self.postgres().ok_or(AttachError::Unsupported)?;
        if !statement::delete(&mut *connection, name).await? {
            return Err(AttachError::NotAttached { table: name.clone() });
        }
        statement::forget_table(connection, name).await?;
        let entry =
            AuditEntry::new(actor.clone(), "outbox.detach", &object(name)).from_to("attached", "none");
        self.audit().record(&entry).await?;
        self.wake(SLOTS);
        Ok(())
    }

    /// Empty on SQLite.
    pub async fn attached_tables(&mut self) -> Result<Vec<AttachedRecord>> {
        let Some(connection) = self.postgres() else { return Ok(Vec::new()) };
        Ok(statement::list(connection).await?)
    }

    /// The tables stay attached until the transaction ends.
    #[crate::boxed]
    pub async fn lock_attached_tables(
        &mut self,
        name: &TableName,
    ) -> Result<Option<AttachedTable>, AttachError> {
        let connection = self.postgres().ok_or(AttachError::Unsupported)?;
        statement::lock(connection).await?;
        match self.attached_table(name).await {
            Ok(table) => Ok(Some(table)),
            Err(AttachError::NotAttached { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    #[crate::boxed]
    pub async fn attached_table(&mut self, name: &TableName) -> Result<AttachedTable, AttachError> {
        if self.postgres().is_none() {
            return Err(AttachError::Unsupported);
        }
        let tables = self.attached_tables().await?;
        let found = tables.into_iter().map(|record| record.table).find(|table| table.name == *name);
        found.ok_or_else(|| AttachError::NotAttached { table: name.clone() })
    }
}

/// The audited object.
fn object(name: &TableName) -> String {
    format!("outbox/{name}")
}
