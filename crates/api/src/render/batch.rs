//! Renders that are ordered together, from a table.

use crate::shapes;
use std::collections::BTreeMap;
use tidemill_domain::render::{RenderId, Status};
use tidemill_domain::time::Timestamp;
use tidemill_store::render::{BatchRecord, PlannedRender, Submitted};

shapes! {
    /// Request for a batch of renders: a table with a header, and a row for each render.
    #[schema(example = json!({ "csv": "composition,cue_item,title\nlower-third,cue-1,Good evening\n", "map": { "title": "Single - title" } }))]
    pub struct OrderRenders in body {
        /// Comma-separated values; semicolons and tabs also separate. A column is `composition`, `cue_item`, `priority`,
        /// `deadline`, `broadcast_date`, or a field such as `Slot 1 - name`, `Single - title` or `Flag 1`. At most 1000
        /// rows and 1 MB.
        csv: String,
        /// Targets of columns with other names. An empty target leaves a column out.
        #[serde(default)]
        map: BTreeMap<String, String>,
        /// For rows that name no composition.
        composition: Option<String>,
        /// For rows without a priority. Default 0.
        #[serde(default)]
        priority: i32,
        /// For rows without a deadline.
        #[schema(value_type = Option<String>)]
        deadline: Option<String>,
        /// For rows without a day of the broadcast.
        broadcast_date: Option<String>,
        /// Plan every row, and order none.
        #[serde(default)]
        dry_run: bool,
    }

    /// A batch of renders, and how far it is.
    pub struct RenderBatch from record: &BatchRecord {
        /// The id of its first render.
        id: i64 = record.id.get(),
        /// Number of its renders.
        renders: u64 = record.count(|_| true),
        /// Number of those that completed, failed or were cancelled.
        ended: u64 = record.count(Status::is_terminal),
        pending: u64 = record.count(|status| status == Status::Pending),
        /// Number of those that a worker has.
        active: u64 = record.count(Status::is_active),
        completed: u64 = record.count(|status| status == Status::Completed),
        failed: u64 = record.count(|status| status == Status::Failed),
        cancelled: u64 = record.count(|status| status == Status::Cancelled),
        created_at: Timestamp = record.created_at,
        /// When the last render ended; null while one has not.
        ended_at: Option<Timestamp> = record.ended_at,
    }

    /// A row of a table of renders.
    pub struct SheetRender from row: &PlannedRender {
        /// The line of the table in which it begins.
        line: usize = row.line,
        /// Null if the row has problems.
        composition: Option<String> = row.order.as_ref().and_then(|order| order.composition.clone()),
        cue_item: Option<String> = row.order.as_ref().and_then(|order| order.cue_item.clone()),
        /// The render; null before it is ordered.
        id: Option<i64> = row.submitted.map(|submitted| submitted.id().get()),
        /// False if the same render was ordered before and has not ended.
        is_new: Option<bool> = row.submitted.map(|submitted| matches!(submitted, Submitted::New(_))),
        /// Fields of the template that stay empty.
        warnings: Vec<String> = row.warnings.clone(),
        /// Everything that is wrong, each with its line and column.
        problems: Vec<String> = row.problems.iter().map(ToString::to_string).collect(),
    }

    /// The renders of a table, ordered or only planned.
    pub struct OrderedBatch {
        /// The id of the batch; null for a dry run, or if all renders were ordered before.
        batch: Option<i64>,
        /// Whether no row has a problem.
        is_valid: bool,
        rows: Vec<SheetRender>,
    }

    /// How many renders of a batch are retried.
    pub struct RetriedBatch {
        batch: i64,
        retried: usize,
    }
}

impl OrderedBatch {
    pub fn new(batch: Option<RenderId>, rows: &[PlannedRender]) -> Self {
        Self {
            batch: batch.map(RenderId::get),
            is_valid: rows.iter().all(|row| row.problems.is_empty()),
            rows: rows.iter().map(SheetRender::from).collect(),
        }
    }
}
