//! Lists of schedules for people.

use crate::error::Result;
use crate::statement::stored;
use crate::tx::Schedules;
use tidemill_domain::job::ExecutionId;
use tidemill_domain::schedule::{Schedule, TickOutcome};
use tidemill_domain::time::Timestamp;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleRecord {
    pub schedule: Schedule,
    pub defined_at: Timestamp,
    /// The next undecided tick.
    pub next_at: Option<Timestamp>,
    /// Whether that tick is due and waits, for an earlier execution or for room.
    pub is_waiting: bool,
    /// The last decided tick.
    pub last_tick_at: Option<Timestamp>,
    pub pause: Option<Pause>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pause {
    pub at: Timestamp,
    pub by: String,
    pub reason: String,
}

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct TickRecord in ("tidemill_schedule_tick", "schedule tick_at") {
        pub tick: Timestamp = "tick_at",
        pub outcome: TickOutcome,
        /// Why it did not fire.
        pub reason: Option<String>,
        pub execution: Option<ExecutionId> = "execution_id",
        pub at: Timestamp,
    }
}

impl Schedules<'_> {
    /// By name.
    pub async fn list(&mut self, limit: u32) -> Result<Vec<ScheduleRecord>> {
        self.schedule_list(limit).await?.into_iter().map(TryInto::try_into).collect()
    }

    pub async fn find(&mut self, name: &str) -> Result<Option<ScheduleRecord>> {
        self.schedule_find(name).await?.map(TryInto::try_into).transpose()
    }
}
