//! `job delete`: deletes instances that ended long ago. It needs only the database, so any program can run it.

use crate::commands::prelude::*;
use std::time::Duration;
use tidemill_domain::duration;
use tidemill_domain::job::retention::{Kept, Retention, Unfinished};
use tidemill_domain::time::Clock;
use tidemill_domain::words::plural;
use tidemill_engine::SystemClock;
use tidemill_engine::job::purge::{self, BATCH};
use tidemill_engine::job::{PurgeOrder, PurgeReport};
use tidemill_store::job::Removed;

const NOTE_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Args, Debug)]
pub(crate) struct Delete {
    /// Only instances of this job
    #[arg(long)]
    job: Option<String>,
    /// Only instances that ended longer ago than this, such as 90d
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    older_than: Option<Duration>,
    /// Number of newest instances of each job to keep
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    keep: Option<u32>,
    /// Also delete failed and stopped instances; their next launch starts from the beginning
    #[arg(long)]
    include_failed: bool,
    /// Count what would be deleted, delete nothing
    #[arg(long)]
    dry_run: bool,
    /// Number of instances per transaction
    #[arg(long, value_name = "COUNT", default_value_t = BATCH, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
}

pub(super) async fn run(arguments: Delete, context: &Context) -> Result<Exit> {
    let unfinished = if arguments.include_failed { Unfinished::Forget } else { Unfinished::Keep };
    let retention = Retention::new(arguments.older_than, arguments.keep, unfinished)?;
    let order = PurgeOrder { job: arguments.job, retention, batch: arguments.batch };
    let store = context.store().await?;
    let clock = SystemClock::new();
    let mut last_note = clock.monotonic();
    let progress = |report: &PurgeReport| {
        let now = clock.monotonic();
        if now.since(last_note) >= NOTE_INTERVAL {
            last_note = now;
            context.note(&so_far(report));
        }
    };
    let report = if arguments.dry_run {
        purge::count(&store, &order, progress).await?
    } else {
        let report = purge::purge(&store, &order, &context.actor(), progress).await?;
        context.log_folder()?.sweep(&store).await?;
        report
    };
    for note in notes(&order, &report) {
        context.note(&note);
    }
    let Removed { instances, executions, steps } = report.removed;
    let values = [
        ("instances", json!(instances)),
        ("executions", json!(executions)),
        ("steps", json!(steps)),
        ("is_dry_run", json!(arguments.dry_run)),
    ];
    Listing::one("tidemill.job_purge/v1", values).print(context.output())
}

fn notes(order: &PurgeOrder, report: &PurgeReport) -> Vec<String> {
    if let (Some(job), true) = (&order.job, *report == PurgeReport::default()) {
        return vec![format!(
            "job {job} has no instances that are old enough or too many; list jobs with `tidemill job list`"
        )];
    }
    report.kept.iter().map(|(why, count)| format!("{count} kept: {}", words(*why))).collect()
}

fn words(why: Kept) -> &'static str {
    match why {
        Kept::NeverRan => "they have no execution, so their age is unknown",
        Kept::Unresolved => "an execution is running, or its outcome is unknown",
        Kept::Held => "a process holds their lease",
        Kept::RestartDue => "an automatic restart is pending",
        Kept::Unfinished => {
            "they failed or were stopped, and a restart could complete them; --include-failed deletes them"
        }
        Kept::NeededByOuter => "a job that ran them as a step can still be restarted",
        Kept::TooYoung => "they ended too recently",
        Kept::AmongNewest => "they are among the newest instances of their job",
        _ => "for a reason that this version does not know",
    }
}

fn so_far(report: &PurgeReport) -> String {
    let kept: u64 = report.kept.values().sum();
    let Removed { instances, executions, .. } = report.removed;
    let instances = plural(instances, "instance", "instances");
    let executions = plural(executions, "execution", "executions");
    format!("{instances} with {executions} so far, {kept} kept")
}
