//! `job purge`: forgets instances that ended long ago. It acts on the database alone, so that any program can do it.

use crate::context::Context;
use crate::output::Listing;
use crate::report::Failure;
use clap::Args;
use serde_json::json;
use std::time::Duration;
use tidemill_domain::code::Exit;
use tidemill_domain::duration;
use tidemill_domain::job::retention::{Kept, Retention, Unfinished};
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_engine::SystemClock;
use tidemill_engine::job::purge::{self, BATCH};
use tidemill_engine::job::{PurgeOrder, PurgeReport};
use tidemill_store::job::Removed;

/// How long nobody hears anything.
const SILENCE: Duration = Duration::from_secs(2);

/// What to forget.
#[derive(Args, Debug)]
pub(crate) struct Purge {
    /// Only instances of this job
    #[arg(long)]
    job: Option<String>,
    /// Only those that ended longer ago, such as 90d
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    older_than: Option<Duration>,
    /// Keep this many of the newest instances of each job
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    keep: Option<u32>,
    /// Also those that failed or were stopped; a launch then starts from the beginning
    #[arg(long)]
    include_failed: bool,
    /// Only count what would go
    #[arg(long)]
    dry_run: bool,
    /// Look at this many instances in one transaction
    #[arg(long, value_name = "COUNT", default_value_t = BATCH, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
}

pub(super) async fn run(arguments: Purge, context: &Context) -> Result<Exit, Failure> {
    let unfinished = if arguments.include_failed { Unfinished::Forget } else { Unfinished::Keep };
    let retention = Retention::new(arguments.older_than, arguments.keep, unfinished)?;
    let order = PurgeOrder { job: arguments.job, retention, batch: arguments.batch };
    let store = context.store().await?;
    let mut progress = Progress::new(context);
    let report = if arguments.dry_run {
        purge::count(&store, &order, |report| progress.tell(report)).await?
    } else {
        purge::purge(&store, &order, &context.actor(), |report| progress.tell(report)).await?
    };
    for note in notes(&order, &report) {
        context.note(&note);
    }
    let Removed { instances, executions, steps } = report.removed;
    let listing = Listing::one("tidemill.job_purge/v1").with([
        ("instances", json!(instances)),
        ("executions", json!(executions)),
        ("steps", json!(steps)),
        ("is_dry_run", json!(arguments.dry_run)),
    ]);
    listing.print(context.output())
}

/// What is good to know beside the counts.
fn notes(order: &PurgeOrder, report: &PurgeReport) -> Vec<String> {
    if let (Some(job), true) = (&order.job, *report == PurgeReport::default()) {
        return vec![format!(
            "nothing of job {job} is old or numerous enough; `tidemill job list` has all jobs"
        )];
    }
    report.kept.iter().map(|(why, count)| format!("{count} kept: {}", words(*why))).collect()
}

fn words(why: Kept) -> &'static str {
    match why {
        Kept::NeverRan => "they have no execution, so nobody knows their age",
        Kept::Unresolved => "an execution runs, or nobody knows how it ended",
        Kept::Held => "a process acts for them",
        Kept::RestartDue => "they are about to be restarted",
        Kept::Unfinished => {
            "they failed or were stopped, and a restart could finish them; --include-failed forgets them"
        }
        Kept::NeededByOuter => "a job that ran them as a step may go on",
        Kept::TooYoung => "they ended too short a time ago",
        Kept::AmongNewest => "they are among the newest of their job",
        _ => "of a reason that this version does not know",
    }
}

/// Says how far it is, now and then.
struct Progress<'a> {
    context: &'a Context,
    clock: SystemClock,
    told: Monotonic,
}

impl<'a> Progress<'a> {
    fn new(context: &'a Context) -> Self {
        let clock = SystemClock::new();
        Self { told: clock.monotonic(), clock, context }
    }

    fn tell(&mut self, report: &PurgeReport) {
        let now = self.clock.monotonic();
        if now.since(self.told) < SILENCE {
            return;
        }
        self.told = now;
        let kept: u64 = report.kept.values().sum();
        let Removed { instances, executions, .. } = report.removed;
        self.context.note(&format!("{instances} instances with {executions} executions so far, {kept} kept"));
    }
}
