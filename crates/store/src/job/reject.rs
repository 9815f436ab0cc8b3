//! Items that a step left out, with their error.

use super::columns;
use crate::error::StoreError;
use crate::statement::stored;
use crate::tx::Jobs;
use tidemill_domain::job::StepExecutionId;
use tidemill_domain::time::Timestamp;

/// An item that a step leaves out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RejectRow {
    /// What was being done with it: `read`, `process` or `write`.
    pub phase: &'static str,
    pub kind: String,
    pub error: String,
    pub place: Option<String>,
    pub item: Option<String>,
}

impl RejectRow {
    /// What is wrong with an item may be the very character that PostgreSQL cannot hold.
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
    /// An item that a step has left out.
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
    /// Keeps items that a step leaves out; they commit with the chunk.
    pub async fn insert_rejects(
        &mut self,
        step: StepExecutionId,
        rows: &[RejectRow],
    ) -> Result<(), StoreError> {
        let now = self.now().await?.into();
        let rows: Vec<RejectRow> = rows.iter().map(RejectRow::storable).collect();
        Ok(self.job_reject_insert(step.get(), &rows, now).await?)
    }

    /// What a step has left out, in order, from behind number `after` on.
    pub async fn rejects(
        &mut self,
        step: StepExecutionId,
        after: i64,
        limit: u32,
    ) -> Result<Vec<RejectRecord>, StoreError> {
        Ok(self.job_reject_list(step.get(), after, limit.into()).await?)
    }
}
