//! `outbox attach`, `attached` and `detach`: existing tables that relays publish from.

use crate::commands::prelude::*;
use tidemill_api::attached_table;
use tidemill_domain::outbox::attached::{AttachedTable, BadTableName, TableName};
use tidemill_store::outbox::AttachError;

#[derive(Args, Clone, Debug)]
pub(crate) struct Table {
    /// Name of the table, as it is in the database
    #[arg(value_name = "TABLE")]
    table: String,
    /// Schema of the table
    #[arg(long, default_value = "public")]
    schema: String,
}

impl Table {
    fn name(&self) -> Result<TableName> {
        Ok(TableName::new(&self.schema, &self.table)?)
    }
}

#[derive(Args, Debug)]
pub(crate) struct Attach {
    #[command(flatten)]
    table: Table,
    /// Topic of the events. Default: the name of the table
    #[arg(long)]
    topic: Option<String>,
    /// Aggregate type of the events. Default: the name of the table
    #[arg(long, value_name = "TYPE")]
    aggregate_type: Option<String>,
    /// Type of events whose headers do not name one. Default: the name of the table
    #[arg(long, value_name = "TYPE")]
    event_type: Option<String>,
    /// Time zone of timestamp columns without one, such as Asia/Seoul. Default: UTC
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// Show the SQL statements without running them
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Detach {
    #[command(flatten)]
    table: Table,
    /// Drop the indexes that `attach` created
    #[arg(long)]
    drop_indexes: bool,
}

pub(super) async fn attach(arguments: Attach, context: &Context) -> Result<Exit> {
    let Attach { table, topic, aggregate_type, event_type, time_zone, dry_run } = arguments;
    let attached = AttachedTable::new(
        table.name()?,
        topic.as_deref().unwrap_or(&table.table),
        aggregate_type.as_deref(),
        event_type.as_deref(),
        time_zone.as_deref(),
    )?;
    let store = context.store().await?;
    let mut examined = store.examine_table(&attached).await?;
    let statements = std::mem::take(&mut examined.statements);
    if dry_run {
        context.note("dry run: nothing was changed");
    } else {
        if !statements.is_empty() {
            context.note("creating indexes; this waits for running transactions");
        }
        store.index_attached(&attached.name).await?;
        // With the indexes, the content of the table can be checked too.
        examined = store.examine_table(&attached).await?;
        let mut tx = store.begin().await?;
        tx.outbox().attach_table(&attached, &context.actor()).await?;
        tx.commit().await?;
    }
    for warning in &examined.warnings {
        context.note(&format!("warning: {warning}"));
    }
    let values = [
        ("table", json!(attached.name.to_string())),
        ("topic", json!(attached.topic)),
        ("is_attached", json!(!dry_run)),
        ("statements", json!(statements)),
    ];
    Listing::one("tidemill.outbox_attach/v1", values).print(context.output())
}

pub(super) async fn list(context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let records = tx.outbox().attached_tables().await?;
    let (schema, empty) = ("tidemill.outbox_attached/v1", "No table is attached.");
    let columns = "schema table topic aggregate_type? event_type? time_zone?? since? by?";
    context.print_list::<attached_table::AttachedTable, _>(schema, empty, &records, columns)
}

pub(super) async fn detach(arguments: Detach, context: &Context) -> Result<Exit> {
    let name = arguments.table.name()?;
    let store = context.store().await?;
    let mut tx = store.begin().await?;
    tx.outbox().detach_table(&name, &context.actor()).await?;
    tx.commit().await?;
    if arguments.drop_indexes {
        store.drop_attached_index(&name).await?;
    }
    context.done(&format!("{name} is detached; its rows were not changed"))
}

impl From<BadTableName> for Failure {
    fn from(bad: BadTableName) -> Self {
        let fix = "write the table as it is in the database, and its schema with --schema";
        Self::new(bad.code(), bad.to_string(), fix)
    }
}

impl From<AttachError> for Failure {
    fn from(error: AttachError) -> Self {
        let failure = Self::new(error.code(), error.to_string(), error.fix());
        failure.because(error.why().unwrap_or_default()).because_of(&error)
    }
}
