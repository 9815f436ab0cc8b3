//! Items that a step skipped, with their error.

use super::columns;
use crate::error::Result;
use crate::statement::stored;
use crate::tx::Jobs;
use tidemill_domain::job::StepExecutionId;
use tidemill_domain::time::Timestamp;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RejectRow {
    /// `read`, `process` or `write`.
    pub phase: &'static str,
    pub kind: String,
    pub error: String,
    pub place: Option<String>,
    pub item: Option<String>,
}

impl RejectRow {
    /// The item may contain NUL, which PostgreSQL cannot store.
    fn storable(&self) -> Self {
        Self {
            phase: self.phase,
            kind: columns::storable(&self.kind),
            error: columns::storable(&self.error),
            place: self.place.as_deref().map(columns::storable),
            item: self.item.as_deref().map(columns::storable),
        }
    }
}

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct RejectRecord in ("tidemill_reject", "id") {
        pub id: i64,
        pub at: Timestamp,
        pub phase: String,
        pub kind: String,
        pub error: String,
        pub place: Option<String>,
        pub item: Option<String>,
    }
}

impl Jobs<'_> {
    /// They commit with the chunk.
    pub async fn insert_rejects(&mut self, step: StepExecutionId, rows: &[RejectRow]) -> Result<()> {
        let now = self.now().await?;
        let rows: Vec<RejectRow> = rows.iter().map(RejectRow::storable).collect();
        Ok(self.job_reject_insert(step, &rows, now).await?)
    }
}
