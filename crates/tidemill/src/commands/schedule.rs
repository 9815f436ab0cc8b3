//! `tidemill schedule`: when jobs are launched automatically, and the outcome of each tick.

use crate::commands::job::reason;
use crate::commands::prelude::*;
use tidemill_api::schedule::{Schedule, ScheduleTick};
use tidemill_domain::time::Timestamp;
use tidemill_engine::job::JobError;
use tidemill_server::api::schedule::find;
use tidemill_store::schedule::ScheduleRecord;

#[derive(Subcommand, Debug)]
pub(crate) enum ScheduleCommand {
    /// List schedules
    List {
        /// Maximum number of schedules
        #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
    /// Show a schedule: its definition and its state
    Show {
        /// Name of the schedule
        name: String,
    },
    /// Pause a schedule until it is resumed
    Pause {
        /// Name of the schedule
        name: String,
        /// Reason, kept in the audit log
        #[arg(long, value_parser = reason)]
        reason: String,
    },
    /// Delete a schedule that no server defines any more, with its ticks
    #[command(aliases = ["remove", "rm"])]
    Delete {
        /// Name of the schedule
        name: String,
        /// Reason, kept in the audit log
        #[arg(long, value_parser = reason)]
        reason: String,
    },
    /// Resume a paused schedule with its next tick
    Resume {
        /// Name of the schedule
        name: String,
    },
    /// List the next ticks of a schedule
    Next {
        /// Name of the schedule
        name: String,
        /// Number of ticks
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
        count: u32,
    },
    /// List past ticks of a schedule with their outcomes, the newest first
    Ticks {
        /// Name of the schedule
        name: String,
        /// Maximum number of ticks
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
}

#[crate::boxed(?Send)]
pub(super) async fn run(command: ScheduleCommand, context: &Context) -> Result<Exit> {
    match command {
        ScheduleCommand::List { limit } => list(limit, context).await,
        ScheduleCommand::Show { name } => show(&name, context).await,
        ScheduleCommand::Pause { name, reason } => pause(&name, &reason, context).await,
        ScheduleCommand::Delete { name, reason } => delete(&name, &reason, context).await,
        ScheduleCommand::Resume { name } => resume(&name, context).await,
        ScheduleCommand::Next { name, count } => next(&name, count, context).await,
        ScheduleCommand::Ticks { name, limit } => ticks(&name, limit, context).await,
    }
}

async fn list(limit: u32, context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let schedules = tx.schedules().list(limit + 1).await?;
    let columns = "name job cron? zone? state next_at last_tick_at?";
    context.print_page::<Schedule, _>("tidemill.schedule/v1", "No schedules.", &schedules, columns, limit, "")
}

async fn show(name: &str, context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    print(&find(&mut tx, name).await?, context)
}

async fn delete(name: &str, reason: &str, context: &Context) -> Result<Exit> {
    let mut tx = context.begin().await?;
    find(&mut tx, name).await?;
    tx.schedules().remove(name, &context.actor(), reason).await?;
    tx.commit().await?;
    context.done(&format!("schedule {name} is deleted; a server that still defines it creates it again"))
}

async fn pause(name: &str, reason: &str, context: &Context) -> Result<Exit> {
    let mut tx = context.begin().await?;
    let before = find(&mut tx, name).await?;
    let paused = tx.schedules().pause(name, &context.actor(), reason).await?;
    tx.commit().await?;
    print(&paused.unwrap_or(before), context)
}

async fn resume(name: &str, context: &Context) -> Result<Exit> {
    let mut tx = context.begin().await?;
    let before = find(&mut tx, name).await?;
    let resumed = tx.schedules().resume(name, &context.actor(), None).await?;
    tx.commit().await?;
    print(&resumed.unwrap_or(before), context)
}

async fn next(name: &str, count: u32, context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let record = find(&mut tx, name).await?;
    let bad = |bad| JobError::BadSchedule { schedule: name.to_owned(), bad };
    let plan = record.schedule.plan().map_err(bad)?;
    let columns = &["tick_at", "local_time"];
    let mut listing = Listing::new("tidemill.schedule_next/v1", columns, "No next tick.");
    let following = |tick: &Timestamp| plan.timetable.next_after(*tick);
    for tick in std::iter::successors(record.next_at, following).take(count as usize) {
        let local = plan.timetable.zone.local(tick).map(|local| local.to_string());
        listing.push(vec![json!(tick), json!(local)]);
    }
    listing.print(context.output())?;
    if record.pause.is_some() {
        context.note(&format!("schedule {name} is paused: it fires only after it is resumed"));
    }
    Ok(Exit::Ok)
}

async fn ticks(name: &str, limit: u32, context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    find(&mut tx, name).await?;
    let ticks = tx.schedules().ticks(name, None, limit + 1).await?;
    let columns = "tick_at outcome execution decided_at? reason";
    let (schema, empty) = ("tidemill.schedule_tick/v1", "No ticks yet.");
    context.print_page::<ScheduleTick, _>(schema, empty, &ticks, columns, limit, "")
}

fn print(record: &ScheduleRecord, context: &Context) -> Result<Exit> {
    context.print_one("tidemill.schedule_detail/v1", &Schedule::from(record))
}
