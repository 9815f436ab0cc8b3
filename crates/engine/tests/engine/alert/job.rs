//! The signals and shipped rules of jobs and schedules, on real executions.

use super::{Recorder, take_watch};
use crate::job::Stand;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidemill_domain::alert::{Rule, RuleFields};
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::JobParameters;
use tidemill_domain::job::usual::HISTORY_MIN;
use tidemill_engine::HeldLease;
use tidemill_engine::alert::{Alerting, Evaluated, default_rules, signal};
use tidemill_engine::job::{Job, Step};
use tidemill_engine::schedule::{self, MissedRuns, Schedule};
use tidemill_engine::testing::JobBench;
use tidemill_store::alert::AlertRecord;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_failed_job_alerts_once_until_all_its_reruns_complete,
    data_of_items_is_in_no_notification,
    a_restart_that_nobody_does_alerts,
    a_run_that_takes_much_longer_than_its_predecessors_alerts,
    a_schedule_that_nobody_fires_is_late,
    a_missed_tick_alerts_until_a_later_one_fires,
];

const HOUR: Duration = Duration::from_secs(3600);

/// The shipped rule of a name, and a channel that keeps what it is told.
struct Watched {
    bench: JobBench,
    stand: Stand,
    alerting: Alerting,
    channel: Recorder,
    watch: HeldLease,
}

impl Watched {
    async fn by(rule: &str, scratch: Scratch) -> Self {
        let stand = Stand::on(scratch).await;
        let bench = JobBench::on(stand.bench.store().clone(), stand.clock.clone()).await.unwrap();
        let shipped = default_rules().into_iter().find(|known| known.name() == rule).unwrap();
        let fields = RuleFields {
            name: shipped.name().to_owned(),
            signal: shipped.signal().to_owned(),
            condition: shipped.condition(),
            aggregate: shipped.aggregate(),
            window: shipped.window(),
            hold: shipped.hold(),
            severity: shipped.severity(),
            channels: vec!["recorder".to_owned()],
        };
        let (clock, channel) = (stand.clock.clone(), Recorder::default());
        let rules = vec![Rule::new(fields).unwrap()];
        let signals = signal::known(clock.clone());
        let alerting = Alerting::new(rules, signals, vec![Arc::new(channel.clone())], clock).unwrap();
        let watch = take_watch(bench.process()).await.unwrap();
        Self { bench, stand, alerting, channel, watch }
    }

    /// Evaluates once: how many alerts fired, and how many were resolved.
    async fn look(&mut self) -> (usize, usize) {
        let Evaluated { fired, resolved, unobserved } =
            self.alerting.evaluator.run_once(&self.watch).await.unwrap();
        assert_eq!(unobserved, 0);
        self.alerting.deliverer.run_once(&self.watch).await.unwrap();
        (fired, resolved)
    }

    async fn listed(&self) -> Vec<AlertRecord> {
        let mut tx = self.bench.store().read().await.unwrap();
        let listed = tx.alerts().list(10).await.unwrap();
        tx.rollback().await.unwrap();
        listed
    }

    fn last(&self) -> String {
        self.channel.summaries().pop().unwrap_or_default()
    }
}

/// Data of an item, as a database may put it into its error.
const ITEM: &str = "Key (email)=(anna@example.com)";

/// Fails while it is told to.
fn fragile(fails: &Arc<AtomicBool>) -> Job {
    let fails = fails.clone();
    let step = Step::tasklet("copy", move |_| {
        let fails = fails.load(Ordering::SeqCst);
        async move { if fails { Err(ItemError::new(ErrorKind::FATAL, ITEM)) } else { Ok(()) } }
    });
    Job::new("load").step(step)
}

async fn a_failed_job_alerts_once_until_all_its_reruns_complete(scratch: Scratch) {
    let mut watched = Watched::by("job_failed", scratch).await;
    let fails = Arc::new(AtomicBool::new(true));
    let job = fragile(&fails);
    let day = |day: &str| JobParameters::new().with("day", day);
    assert_eq!(watched.look().await, (0, 0));

    let failed = watched.bench.run(&job, &day("1")).await.unwrap().end.execution;
    assert_eq!(watched.look().await, (1, 0));
    let told = watched.last();
    assert!(told.starts_with("job_failed fires for job/load: job_failures is 1,"), "{told}");
    assert!(told.ends_with(&format!("; execution {failed} failed in step copy (TM1013)")), "{told}");
    // Other failures of the job change the alert, and notify nobody again.
    watched.bench.run(&job, &day("1")).await.unwrap();
    let last = watched.bench.run(&job, &day("2")).await.unwrap().end.execution;
    assert_eq!(watched.look().await, (0, 0));
    let listed = watched.listed().await;
    assert_eq!((listed.len(), listed[0].value), (1, Some(2.0)), "{listed:?}");
    assert_eq!(listed[0].detail, Some(format!("execution {last} failed in step copy (TM1013)")));

    fails.store(false, Ordering::SeqCst);
    watched.bench.run(&job, &day("2")).await.unwrap();
    assert_eq!(watched.look().await, (0, 0), "one instance has not completed");
    watched.bench.run(&job, &day("1")).await.unwrap();
    assert_eq!(watched.look().await, (0, 1));
    assert!(watched.last().starts_with("job_failed is over for job/load:"), "{}", watched.last());
}

async fn data_of_items_is_in_no_notification(scratch: Scratch) {
    let mut watched = Watched::by("job_failed", scratch).await;
    let run = watched.bench.run(&fragile(&Arc::new(AtomicBool::new(true))), &JobParameters::new()).await;
    let failed = run.unwrap().end.execution;
    let mut tx = watched.bench.store().read().await.unwrap();
    let recorded = tx.jobs().execution(failed).await.unwrap().unwrap().execution.exit.description;
    tx.rollback().await.unwrap();
    assert!(recorded.contains(ITEM), "{recorded}");

    assert_eq!(watched.look().await, (1, 0));

    let told = watched.channel.told.lock().unwrap().clone();
    let listed = watched.listed().await;
    assert_eq!((told.len(), listed.len()), (1, 1));
    assert!(!format!("{told:?} {listed:?}").contains(ITEM), "{told:?} {listed:?}");
}

async fn a_restart_that_nobody_does_alerts(scratch: Scratch) {
    let mut watched = Watched::by("job_failed", scratch).await;
    let job = fragile(&Arc::new(AtomicBool::new(true)));
    watched.bench.run(&job, &JobParameters::new()).await.unwrap();
    let mut tx = watched.bench.store().begin().await.unwrap();
    tx.execute_for_test("update tidemill_job_execution set restart_due = true").await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(watched.look().await, (0, 0), "a restart is due");
    watched.bench.clock().advance(Duration::from_secs(301));
    assert_eq!(watched.look().await, (1, 0));
}

async fn a_run_that_takes_much_longer_than_its_predecessors_alerts(scratch: Scratch) {
    let mut watched = Watched::by("job_running_long", scratch).await;
    let waits = Arc::new(AtomicBool::new(false));
    let held = waits.clone();
    let clock = watched.stand.clock.clone();
    let step = Step::tasklet("copy", move |_| {
        let (held, clock) = (held.clone(), clock.clone());
        async move {
            if !held.load(Ordering::SeqCst) {
                clock.advance(Duration::from_secs(600));
            }
            while held.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        }
    });
    let job = Job::new("load").step(step);
    let day = |day: usize| JobParameters::new().with("day", day.to_string());
    for number in 0..HISTORY_MIN {
        watched.bench.run(&job, &day(number)).await.unwrap();
    }

    waits.store(true, Ordering::SeqCst);
    let launcher = watched.bench.launcher(&job).unwrap();
    let actor = tidemill_domain::audit::Actor::system();
    let running = launcher.launch("load", &day(99), &actor).await.unwrap();
    crate::until("it runs", async || {
        let mut tx = watched.bench.store().read().await.unwrap();
        let found = tx.jobs().execution(running.execution).await.unwrap().unwrap().execution;
        tx.rollback().await.unwrap();
        found.started_at.is_some()
    })
    .await;
    watched.bench.clock().advance(Duration::from_secs(1_200));
    assert_eq!(watched.look().await, (0, 0), "twice as long is still fine");
    watched.bench.clock().advance(Duration::from_secs(1));
    assert_eq!(watched.look().await, (1, 0));
    let told = watched.last();
    assert!(
        told.contains("job_running_ratio is 2.00") && told.ends_with("running for 1201 seconds"),
        "{told}"
    );

    waits.store(false, Ordering::SeqCst);
    running.ended().await.unwrap();
    assert_eq!(watched.look().await, (0, 1));
}

async fn a_schedule_that_nobody_fires_is_late(scratch: Scratch) {
    let mut watched = Watched::by("schedule_late", scratch).await;
    let job = fragile(&Arc::new(AtomicBool::new(false)));
    let launcher = watched.bench.launcher(&job).unwrap();
    let hourly = Schedule::new("hourly", "load").cron("0 * * * *").missed(MissedRuns::Latest);
    watched.bench.define(&launcher, [hourly]).await.unwrap();

    watched.bench.clock().advance(HOUR + Duration::from_secs(300));
    assert_eq!(watched.look().await, (0, 0));
    watched.bench.clock().advance(Duration::from_secs(1));
    assert_eq!(watched.look().await, (1, 0));
    let told = watched.last();
    assert!(
        told.starts_with("schedule_late fires for schedule/hourly: schedule_late_seconds is 301"),
        "{told}"
    );
    assert!(told.ends_with("job load was due at 2026-11-15T03:00:00.000000Z"), "{told}");

    schedule::turn(&launcher).await.unwrap();
    assert_eq!(watched.look().await, (0, 1));
}

async fn a_missed_tick_alerts_until_a_later_one_fires(scratch: Scratch) {
    let mut watched = Watched::by("schedule_missed", scratch).await;
    let job = fragile(&Arc::new(AtomicBool::new(false)));
    let launcher = watched.bench.launcher(&job).unwrap();
    let hourly = Schedule::new("hourly", "load").cron("0 * * * *");
    watched.bench.define(&launcher, [hourly]).await.unwrap();

    watched.bench.clock().advance(2 * HOUR + HOUR / 2);
    watched.bench.fire_due(&launcher).await.unwrap();
    assert_eq!(watched.look().await, (1, 0));
    let told = watched.last();
    assert!(
        told.contains("schedule/hourly: schedule_missed_ticks is 2, above 0; tick 2026-11-15T04:00"),
        "{told}"
    );
    assert!(told.ends_with("was missed: no process fired it in time"), "{told}");

    watched.bench.clock().advance(HOUR / 2);
    assert_eq!(watched.bench.fire_due(&launcher).await.unwrap().len(), 1);
    assert_eq!(watched.look().await, (0, 0), "decided less than an hour ago");
    watched.bench.clock().advance(HOUR);
    watched.bench.fire_due(&launcher).await.unwrap();
    assert_eq!(watched.look().await, (0, 1));
}
