//! What alerts watch: ticks that are due, and ticks that passed without a launch.

use crate::error::Result;
use crate::statement::{statements, stored};
use crate::tx::Schedules;
use std::time::Duration;
use tidemill_domain::schedule::TickOutcome;
use tidemill_domain::time::Timestamp;

stored! {
    /// The next undecided tick of a schedule that is not paused.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct NextTick in ("tidemill_schedule", "name") {
        pub schedule: String = "name",
        pub job: String,
        pub next_at: Option<Timestamp>,
        /// Whether it waits, for an earlier execution or for room.
        pub is_waiting: bool,
    }

    /// The ticks of a schedule that were missed or refused: how many, and the last of them.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct UnlaunchedTicks in ("tidemill_schedule_tick", "schedule tick_at") {
        pub schedule: String,
        pub count: u64 = "ticks",
        pub tick: Timestamp = "tick_at",
        pub outcome: TickOutcome,
        pub reason: Option<String>,
    }
}

impl Schedules<'_> {
    /// Missed and refused ticks of at most `limit` schedules that are not paused, by name: those that no fired tick
    /// followed, and those decided within this time. A schedule that makes up for missed ticks with the latest has made
    /// up for those before it.
    #[crate::boxed]
    pub async fn unlaunched_ticks(&mut self, within: Duration, limit: u32) -> Result<Vec<UnlaunchedTicks>> {
        let since = self.now().await?.minus(within);
        Ok(self.schedule_watch_unlaunched(since, limit).await?)
    }
}

statements! {
    /// By name.
    pub fn Schedules::next_ticks(limit: u32) -> Vec<NextTick> {
        "select name, job, next_at, is_waiting from tidemill_schedule
         where paused_at is null order by name limit $1"
    }

    /// Needs the index on unlaunched ticks.
    fn schedule_watch_unlaunched(since: Timestamp, limit: u32) -> Vec<UnlaunchedTicks> {
        "select l.schedule as schedule, u.ticks as ticks, l.tick_at as tick_at, l.outcome as outcome,
                l.reason as reason
         from (
             select t.schedule as schedule, count(*) as ticks, max(t.tick_at) as tick_at
             from (
                 select s.name as name, s.missed as missed,
                        (
                            select f.tick_at
                            from tidemill_schedule_tick f
                            where f.schedule = s.name
                              and f.outcome = 'fired'
                            order by f.tick_at desc
                            limit 1
                        ) as fired_at
                 from tidemill_schedule s
                 where s.paused_at is null
             ) as known
             join tidemill_schedule_tick t on t.schedule = known.name
             where t.outcome in ('missed', 'refused')
               and (
                   known.fired_at is null
                   or t.tick_at > known.fired_at
                   or (t.at > $1 and known.missed <> 'latest')
               )
             group by t.schedule
             order by t.schedule
             limit $2
         ) as u
         join tidemill_schedule_tick l on l.schedule = u.schedule and l.tick_at = u.tick_at
         order by l.schedule"
    }
}
