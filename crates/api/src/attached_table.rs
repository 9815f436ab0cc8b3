//! Existing tables that relays publish from, beside the outbox.

use crate::shapes;
use tidemill_domain::time::Timestamp;
use tidemill_store::outbox::AttachedRecord;
use tidemill_store::outbox::attached::FailedRecord;

shapes! {
    /// An existing table that relays publish from.
    pub struct AttachedTable from record: &AttachedRecord {
        schema: String = record.table.name.schema().to_owned(),
        table: String = record.table.name.table().to_owned(),
        topic: String = record.table.topic.clone(),
        aggregate_type: String = record.table.aggregate_type.clone(),
        /// Type of events whose headers do not name one.
        event_type: String = record.table.event_type.clone(),
        /// Time zone of timestamp columns without one.
        time_zone: String = record.table.time_zone.clone(),
        /// When it was attached.
        since: Timestamp = record.since,
        /// Who attached it.
        by: String = record.adopted_by.clone(),
    }

    /// A row of an attached table with status FAILED. Without its payload.
    pub struct FailedRow from record: &FailedRecord {
        id: i64 = record.id.get(),
        aggregate_id: Option<String> = record.aggregate_id.clone(),
        /// Known attempts.
        attempts: u32 = record.attempts,
        /// Why the sink last refused it, if known.
        error: Option<String> = record.error.clone(),
        updated_at: Option<Timestamp> = record.updated_at,
        /// A skipped row does not hold back later rows.
        is_skipped: bool = record.is_skipped,
    }

    /// Request to attach a table.
    #[schema(example = json!({ "table": "transfer_event", "topic": "transfers" }))]
    pub struct AttachTable in body {
        table: String,
        /// Default `public`.
        schema: Option<String>,
        topic: String,
        /// Default: the name of the table.
        aggregate_type: Option<String>,
        /// Type of events whose headers do not name one. Default: the name of the table.
        event_type: Option<String>,
        /// Time zone of timestamp columns without one. Default `UTC`.
        time_zone: Option<String>,
    }

    /// A table that was just attached.
    pub struct NewAttachedTable {
        /// Schema and name.
        table: String,
        warnings: Vec<String>,
    }

    /// Filters for a list of failed rows.
    pub struct ListFailedRows in query {
        /// Maximum number of rows, from 1 to 500. Default 50.
        limit: Option<u32>,
        /// Only rows after this id: `next` of the previous page.
        after: Option<i64>,
        /// Include skipped rows.
        #[serde(default)]
        skipped: bool,
    }
}
