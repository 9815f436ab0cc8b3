//! `tidemill schedule`: when jobs are launched by themselves, and what became of each tick.

use crate::commands::job::reason;
use crate::context::Context;
use crate::output::{Listing, print_fields};
use crate::report::Failure;
use clap::Subcommand;
use serde_json::{Map, Value, json};
use tidemill_domain::code::Exit;
use tidemill_domain::duration;
use tidemill_domain::time::Timestamp;
use tidemill_engine::job::JobError;
use tidemill_store::schedule::ScheduleRecord;

/// When jobs are launched by themselves
#[derive(Subcommand, Debug)]
pub(crate) enum ScheduleCommand {
    /// The schedules that this database knows
    List {
        /// At most so many schedules
        #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
    /// One schedule: its definition, and where it stands
    Show {
        /// Its name
        name: String,
    },
    /// Keep a schedule from firing until it is resumed
    Pause {
        /// Its name
        name: String,
        /// Why, for those who wonder later
        #[arg(long, value_parser = reason)]
        reason: String,
    },
    /// Forget a schedule that no server defines any more, and what became of its ticks
    Remove {
        /// Its name
        name: String,
        /// Why, for those who wonder later
        #[arg(long, value_parser = reason)]
        reason: String,
    },
    /// Let a schedule that is paused go on with its next tick
    Resume {
        /// Its name
        name: String,
    },
    /// The coming ticks of a schedule
    Next {
        /// Its name
        name: String,
        /// So many ticks
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
        count: u32,
    },
    /// What became of the ticks of a schedule, the newest first
    Ticks {
        /// Its name
        name: String,
        /// At most so many ticks
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
}

#[crate::boxed(?Send)]
pub(super) async fn run(command: ScheduleCommand, context: &Context) -> Result<Exit, Failure> {
    match command {
        ScheduleCommand::List { limit } => list(limit, context).await,
        ScheduleCommand::Show { name } => show(&name, context).await,
        ScheduleCommand::Pause { name, reason } => pause(&name, &reason, context).await,
        ScheduleCommand::Remove { name, reason } => remove(&name, &reason, context).await,
        ScheduleCommand::Resume { name } => resume(&name, context).await,
        ScheduleCommand::Next { name, count } => next(&name, count, context).await,
        ScheduleCommand::Ticks { name, limit } => ticks(&name, limit, context).await,
    }
}

async fn list(limit: u32, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let schedules = tx.schedules().list(limit).await?;
    context.list("tidemill.schedule/v1", "There are no schedules.", &schedules).columns(&[
        ("name", |record| json!(record.schedule.name)),
        ("job", |record| json!(record.schedule.job)),
        ("cron", |record| json!(record.schedule.cron)),
        ("zone", |record| json!(record.schedule.zone)),
        ("state", |record| json!(state(record))),
        ("next_at", |record| instant(record.next_at)),
        ("last_tick_at", |record| instant(record.last_tick_at)),
    ])
}

async fn show(name: &str, context: &Context) -> Result<Exit, Failure> {
    print(&find(name, context).await?, context)
}

async fn remove(name: &str, reason: &str, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.begin().await?;
    let is_removed = tx.schedules().remove(name, &context.actor(), reason).await?;
    tx.commit().await?;
    if !is_removed {
        return Err(unknown(name).into());
    }
    context.note(&format!("the schedule {name} is forgotten; a server that still defines it brings it back"));
    Ok(Exit::Ok)
}

async fn pause(name: &str, reason: &str, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.begin().await?;
    let paused = tx.schedules().pause(name, &context.actor(), reason).await?;
    tx.commit().await?;
    print(&paused.ok_or_else(|| unknown(name))?, context)
}

async fn resume(name: &str, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.begin().await?;
    let resumed = tx.schedules().resume(name, &context.actor(), None).await?;
    tx.commit().await?;
    print(&resumed.ok_or_else(|| unknown(name))?, context)
}

async fn next(name: &str, count: u32, context: &Context) -> Result<Exit, Failure> {
    let record = find(name, context).await?;
    let bad = |bad| JobError::BadSchedule { schedule: name.to_owned(), bad };
    let plan = record.schedule.plan().map_err(bad)?;
    let columns = &["tick_at", "local_time"];
    let mut listing = Listing::new("tidemill.schedule_next/v1", columns, "No tick will come.");
    let following = |tick: &Timestamp| plan.timetable.next_after(*tick);
    for tick in std::iter::successors(record.next_at, following).take(count as usize) {
        let local = plan.timetable.zone.local(tick).map(|local| local.to_string());
        listing.push(vec![json!(tick.to_string()), json!(local)]);
    }
    listing.print(context.output())?;
    if record.pause.is_some() {
        context.note(&format!("The schedule {name} is paused: these come only if it is resumed before."));
    }
    Ok(Exit::Ok)
}

async fn ticks(name: &str, limit: u32, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let found = tx.schedules().find(name).await?;
    let ticks = tx.schedules().ticks(name, None, limit).await?;
    found.ok_or_else(|| unknown(name))?;
    context.list("tidemill.schedule_tick/v1", "It has not ticked yet.", &ticks).columns(&[
        ("tick_at", |tick| json!(tick.tick.to_string())),
        ("outcome", |tick| json!(tick.outcome.as_str())),
        ("execution", |tick| json!(tick.execution.map(|execution| execution.get()))),
        ("decided_at", |tick| json!(tick.at.to_string())),
        ("reason", |tick| json!(tick.reason)),
    ])
}

async fn find(name: &str, context: &Context) -> Result<ScheduleRecord, Failure> {
    let mut tx = context.read().await?;
    let found = tx.schedules().find(name).await?;
    Ok(found.ok_or_else(|| unknown(name))?)
}

fn unknown(name: &str) -> JobError {
    JobError::UnknownSchedule(name.chars().take(100).collect())
}

fn state(record: &ScheduleRecord) -> &'static str {
    match record {
        ScheduleRecord { pause: Some(_), .. } => "paused",
        ScheduleRecord { is_waiting: true, .. } => "waiting",
        _ => "active",
    }
}

fn instant(at: Option<Timestamp>) -> Value {
    json!(at.map(|at| at.to_string()))
}

fn print(record: &ScheduleRecord, context: &Context) -> Result<Exit, Failure> {
    let schedule = &record.schedule;
    let parameters: Map<String, Value> =
        schedule.parameters.iter().map(|(name, text)| (name.clone(), json!(text))).collect();
    let fields = [
        ("name", json!(schedule.name)),
        ("job", json!(schedule.job)),
        ("cron", json!(schedule.cron)),
        ("zone", json!(schedule.zone)),
        ("windows", json!(schedule.windows)),
        ("outside", json!(schedule.outside)),
        ("missed", json!(schedule.missed)),
        ("overlap", json!(schedule.overlap)),
        ("grace", json!(duration::show(schedule.grace))),
        ("parameters", json!(parameters)),
        ("state", json!(state(record))),
        ("next_at", instant(record.next_at)),
        ("last_tick_at", instant(record.last_tick_at)),
        ("defined_at", json!(record.defined_at.to_string())),
        ("paused_at", instant(record.pause.as_ref().map(|pause| pause.at))),
        ("paused_by", json!(record.pause.as_ref().map(|pause| &pause.by))),
        ("pause_reason", json!(record.pause.as_ref().map(|pause| &pause.reason))),
    ];
    print_fields("tidemill.schedule_detail/v1", &fields, context.output())
}
