//! `tidemill outbox attach`, `attached` and `detach`: tables that were there before, which relays serve beside the outbox.

use crate::context::Context;
use crate::output::Listing;
use crate::report::Failure;
use clap::Args;
use serde_json::json;
use tidemill_domain::code::Exit;
use tidemill_domain::outbox::attached::{AttachedTable, BadTableName, TableName};
use tidemill_store::outbox::AttachError;

/// Which table.
#[derive(Args, Clone, Debug)]
pub(crate) struct Table {
    /// The table, as the catalogue has its name
    #[arg(value_name = "TABLE")]
    table: String,
    /// Its schema
    #[arg(long, default_value = "public")]
    schema: String,
}

impl Table {
    fn name(&self) -> Result<TableName, Failure> {
        Ok(TableName::new(&self.schema, &self.table)?)
    }
}

/// Which table, and how it is served.
#[derive(Args, Debug)]
pub(crate) struct Attach {
    #[command(flatten)]
    table: Table,
    /// Where its events go; the name of the table unless said
    #[arg(long)]
    topic: Option<String>,
    /// What sort of thing its aggregates are; the name of the table unless said
    #[arg(long, value_name = "TYPE")]
    aggregate_type: Option<String>,
    /// What happened, where the headers of a row do not say it; the name of the table unless said
    #[arg(long, value_name = "TYPE")]
    event_type: Option<String>,
    /// The zone of columns that have none, such as Asia/Seoul; UTC unless said
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// Change nothing, and tell what would be done
    #[arg(long)]
    dry_run: bool,
}

/// Which table is no longer served.
#[derive(Args, Debug)]
pub(crate) struct Detach {
    #[command(flatten)]
    table: Table,
    /// Drop the indexes that were made for relays
    #[arg(long)]
    drop_indexes: bool,
}

pub(super) async fn attach(arguments: Attach, context: &Context) -> Result<Exit, Failure> {
    let Attach { table, topic, aggregate_type, event_type, time_zone, dry_run } = arguments;
    let attached = AttachedTable::new(
        table.name()?,
        topic.as_deref().unwrap_or(&table.table),
        aggregate_type.as_deref(),
        event_type.as_deref(),
        time_zone.as_deref(),
    )
    .map_err(|bad| super::add::bad_event(&bad))?;
    let store = context.store().await?;
    let mut examined = store.examine_table(&attached).await?;
    let statements = std::mem::take(&mut examined.statements);
    if dry_run {
        context.note("a dry run: nothing was changed");
    } else {
        if !statements.is_empty() {
            context.note("making indexes, which waits for all transactions that are at work");
        }
        store.index_attached(&attached.name).await?;
        // Now that there are indexes, what is in the table can be told as well.
        examined = store.examine_table(&attached).await?;
        let mut tx = store.begin().await?;
        tx.outbox().attach_table(&attached, &context.actor()).await?;
        tx.commit().await?;
    }
    for warning in &examined.warnings {
        context.note(&format!("warning: {warning}"));
    }
    let listing = Listing::one("tidemill.outbox_attach/v1").with([
        ("table", json!(attached.name.to_string())),
        ("topic", json!(attached.topic)),
        ("is_attached", json!(!dry_run)),
        ("statements", json!(statements)),
    ]);
    listing.print(context.output())
}

pub(super) async fn list(context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let records = tx.outbox().attached_tables().await?;
    context.list("tidemill.outbox_attached/v1", "No table is attached.", &records).columns(&[
        ("table", |record| json!(record.table.name.to_string())),
        ("topic", |record| json!(record.table.topic)),
        ("aggregate_type", |record| json!(record.table.aggregate_type)),
        ("event_type", |record| json!(record.table.event_type)),
        ("time_zone", |record| json!(record.table.time_zone)),
        ("since", |record| json!(record.since.to_string())),
        ("by", |record| json!(record.adopted_by)),
    ])
}

pub(super) async fn detach(arguments: Detach, context: &Context) -> Result<Exit, Failure> {
    let name = arguments.table.name()?;
    let store = context.store().await?;
    let mut tx = store.begin().await?;
    tx.outbox().detach_table(&name, &context.actor()).await?;
    tx.commit().await?;
    if arguments.drop_indexes {
        store.drop_attached_index(&name).await?;
    }
    context.note(&format!("{name} is no longer served; its rows stay as they are"));
    Ok(Exit::Ok)
}

impl From<BadTableName> for Failure {
    fn from(bad: BadTableName) -> Self {
        let fix = "write the table as the catalogue has it, and its schema by --schema";
        Self::new(bad.code(), bad.to_string(), fix)
    }
}

impl From<AttachError> for Failure {
    fn from(error: AttachError) -> Self {
        match error {
            AttachError::Store(error) => error.into(),
            other => {
                let why = other.why().unwrap_or_default();
                Self::new(other.code(), other.to_string(), other.fix()).because(&why)
            }
        }
    }
}
