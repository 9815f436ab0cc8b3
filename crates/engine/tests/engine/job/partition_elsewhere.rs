//! Partitions in several processes: who takes part, who dies, who is told to stop.

use super::Stand;
use super::launch_vector::day;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::job::launch::LaunchRefusal;
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::{BatchStatus, ExecutionId};
use tidemill_domain::time::Clock;
use tidemill_engine::job::partition::run_worker;
use tidemill_engine::job::{
    CommandSpec, Job, JobError, JobRegistry, Launcher, Partition, Step, StepFlow, StepScope, recovery,
};
use tidemill_engine::testing::JobBench;
use tidemill_engine::{Process, reaper};
use tidemill_store::scratch::Scratch;
use tokio::time::timeout;

tidemill_store::on_both![
    another_process_takes_part_unless_the_step_is_local,
    the_partition_of_a_dead_process_moves_and_its_ghost_is_refused,
    a_process_that_is_shut_down_hands_its_partition_back,
    a_stop_ends_all_partitions_wherever_they_run_and_a_restart_goes_on,
    a_dead_manager_is_replaced_and_the_partitions_of_before_are_fenced,
    only_processes_with_the_same_definition_help_and_a_change_has_to_be_accepted,
    a_stop_reaches_long_work_in_another_process,
    a_partition_elsewhere_reads_values_that_were_set_after_another_one_began_there,
];

const LONG: Duration = Duration::from_secs(60);

/// Another process on the same database, with these jobs.
async fn other(bench: &JobBench, clock: Arc<dyn Clock>, name: &str, job: &Job) -> (Process, Launcher) {
    let process = Process::register(bench.store().clone(), clock.clone(), crate::options(name, crate::TTL))
        .await
        .unwrap();
    let jobs = JobRegistry::new([job.clone()]).unwrap();
    (process.clone(), Launcher::new(bench.store().clone(), process, clock, jobs))
}

/// Runs where it shall: notes the process, and waits as long as it is told to there.
#[derive(Clone, Default)]
struct Places {
    ran: Arc<Mutex<Vec<(String, String)>>>,
    /// Where partitions wait.
    waits: Arc<Mutex<BTreeSet<String>>>,
}

impl Places {
    /// The job as the process `here` has it.
    fn job(&self, here: &str, grid: usize, is_local: bool) -> Job {
        let (places, here) = (self.clone(), here.to_owned());
        let worker = Step::tasklet("w", move |mut scope| {
            let (places, here) = (places.clone(), here.clone());
            async move {
                places.ran.lock().unwrap().push((here.clone(), scope.step().step().to_owned()));
                while places.waits.lock().unwrap().contains(&here) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                scope.contribution().write += 1;
                Ok(())
            }
        });
        let parts = |_: &StepScope, grid| Ok((0..grid).map(|n| Partition::new(format!("p{n}"))).collect());
        let divided = Step::partitioned("all", worker, parts).grid(grid).concurrency(1);
        let divided = if is_local { divided.local() } else { divided };
        Job::new("placed").step(divided.build())
    }

    fn ran_at(&self, place: &str) -> usize {
        self.ran.lock().unwrap().iter().filter(|(at, _)| at == place).count()
    }

    fn wait_at(&self, places: &[&str]) {
        *self.waits.lock().unwrap() = places.iter().map(|place| (*place).to_owned()).collect();
    }
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, waiting).await.unwrap_or_else(|_| panic!("{what}"));
}

async fn another_process_takes_part_unless_the_step_is_local(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    for is_local in [false, true] {
        let (bench, places) = (&stand.bench, Places::default());
        let clock: Arc<dyn Clock> = stand.clock.clone();
        let (_process, helper) = other(bench, clock, "there", &places.job("there", 6, is_local)).await;
        let working = tokio::spawn(run_worker(helper.clone(), 2));
        places.wait_at(&["here"]);
        let launcher = bench.launcher(&places.job("here", 6, is_local)).unwrap();
        let running = launcher.launch("placed", &day(i64::from(is_local)), &Actor::system()).await.unwrap();
        until("the manager runs one itself", || places.ran_at("here") == 1).await;
        if !is_local {
            until("the others run elsewhere", || places.ran_at("there") == 5).await;
        }
        places.wait_at(&[]);

        let end = timeout(LONG, running.ended()).await.unwrap().unwrap();

        assert_eq!(end.status, BatchStatus::Completed);
        assert_eq!(places.ran_at("there"), if is_local { 0 } else { 5 });
        let run = bench.look(end).await.unwrap();
        assert_eq!(run.step("all").unwrap().counters.write, 6);
        timeout(LONG, helper.stop_all(LONG)).await.unwrap();
        timeout(LONG, working).await.unwrap().unwrap();
    }
}

async fn the_partition_of_a_dead_process_moves_and_its_ghost_is_refused(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let (bench, places) = (&stand.bench, Places::default());
    let clock: Arc<dyn Clock> = stand.clock.clone();
    let (dead, helper) = other(bench, clock, "there", &places.job("there", 2, false)).await;
    let ghost = tokio::spawn(run_worker(helper, 1));
    places.wait_at(&["here", "there"]);
    let launcher = bench.launcher(&places.job("here", 2, false)).unwrap();
    let running = launcher.launch("placed", &day(1), &Actor::system()).await.unwrap();
    until("both run one", || places.ran_at("here") == 1 && places.ran_at("there") == 1).await;

    for _half in 0..2 {
        stand.clock.advance(crate::TTL / 2);
        bench.process().heartbeat().await.unwrap();
    }
    reaper::run_once(bench.store()).await.unwrap();
    places.wait_at(&["there"]);
    let end = timeout(LONG, running.ended()).await.unwrap().unwrap();
    places.wait_at(&[]);

    assert_eq!((end.status, places.ran_at("here")), (BatchStatus::Completed, 2));
    let run = bench.look(end).await.unwrap();
    assert_eq!(run.step("all").unwrap().counters.write, 2, "what the ghost did does not count");
    assert!(dead.heartbeat().await.is_err());
    timeout(LONG, ghost).await.unwrap().unwrap();
}

async fn a_process_that_is_shut_down_hands_its_partition_back(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let (bench, places) = (&stand.bench, Places::default());
    let clock: Arc<dyn Clock> = stand.clock.clone();
    let (_process, helper) = other(bench, clock, "there", &places.job("there", 2, false)).await;
    let working = tokio::spawn(run_worker(helper.clone(), 1));
    places.wait_at(&["here", "there"]);
    let launcher = bench.launcher(&places.job("here", 2, false)).unwrap();
    let running = launcher.launch("placed", &day(1), &Actor::system()).await.unwrap();
    until("both run one", || places.ran_at("here") == 1 && places.ran_at("there") == 1).await;

    timeout(LONG, helper.stop_all(Duration::ZERO)).await.unwrap();
    timeout(LONG, working).await.unwrap().unwrap();
    places.wait_at(&[]);
    let end = timeout(LONG, running.ended()).await.unwrap().unwrap();

    assert_eq!((end.status, places.ran_at("here")), (BatchStatus::Completed, 2));
}

async fn a_stop_ends_all_partitions_wherever_they_run_and_a_restart_goes_on(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let (bench, places) = (&stand.bench, Places::default());
    let clock: Arc<dyn Clock> = stand.clock.clone();
    let (_process, helper) = other(bench, clock, "there", &places.job("there", 5, false)).await;
    let working = tokio::spawn(run_worker(helper.clone(), 1));
    places.wait_at(&["here", "there"]);
    let job = places.job("here", 5, false);
    let launcher = bench.launcher(&job).unwrap();
    let running = launcher.launch("placed", &day(1), &Actor::system()).await.unwrap();
    until("both run one", || places.ran_at("here") == 1 && places.ran_at("there") == 1).await;

    let mut tx = bench.store().begin().await.unwrap();
    let _asked = tx.jobs().request_stop(running.execution, &Actor::system(), None).await.unwrap();
    tx.commit().await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    places.wait_at(&[]);
    let end = timeout(LONG, running.ended()).await.unwrap().unwrap();

    assert_eq!(end.status, BatchStatus::Stopped);
    let run = bench.look(end).await.unwrap();
    let stopped = run.steps().filter(|step| step.status == BatchStatus::Stopped).count();
    assert!(stopped >= 4, "the step and what nobody had begun");
    let again = bench.run(&job, &day(1)).await.unwrap();
    assert_eq!((again.end.status, again.step("all").unwrap().counters.write), (BatchStatus::Completed, 5));
    timeout(LONG, helper.stop_all(LONG)).await.unwrap();
    timeout(LONG, working).await.unwrap().unwrap();
}

async fn failed(bench: &JobBench, id: ExecutionId) -> bool {
    let mut tx = bench.store().read().await.unwrap();
    let found = tx.jobs().execution(id).await.unwrap().unwrap().execution.status;
    tx.rollback().await.unwrap();
    found == BatchStatus::Failed
}

async fn a_dead_manager_is_replaced_and_the_partitions_of_before_are_fenced(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let (bench, places) = (&stand.bench, Places::default());
    let clock: Arc<dyn Clock> = stand.clock.clone();
    let crashing = |here: &str| places.job(here, 4, false).on_crash(OnCrash::Restart { limit: 3 });
    let (_manager, first) = other(bench, clock.clone(), "dying", &crashing("dying")).await;
    let (survivor, helper) = other(bench, clock, "there", &crashing("there")).await;
    let working = tokio::spawn(run_worker(helper.clone(), 1));
    places.wait_at(&["dying", "there"]);
    let running = first.launch("placed", &day(1), &Actor::system()).await.unwrap();
    let execution = running.execution;
    until("both run one", || places.ran_at("dying") == 1 && places.ran_at("there") == 1).await;

    stand.clock.advance(crate::TTL / 2);
    survivor.heartbeat().await.unwrap();
    stand.clock.advance(crate::TTL / 2);
    survivor.heartbeat().await.unwrap();
    reaper::run_once(bench.store()).await.unwrap();
    assert!(failed(bench, execution).await);
    let restarting = tokio::spawn(recovery::run(helper.clone()));
    until("it runs again", || places.ran_at("there") >= 2).await;
    places.wait_at(&[]);
    drop(running);

    let ended = async {
        loop {
            let mut tx = bench.store().read().await.unwrap();
            let all = tx.jobs().executions(&Default::default(), None, 10).await.unwrap();
            tx.rollback().await.unwrap();
            if all[0].status == BatchStatus::Completed {
                return all[0].id;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let second = timeout(LONG, ended).await.unwrap();

    let mut tx = bench.store().read().await.unwrap();
    let steps = tx.jobs().steps(second).await.unwrap();
    tx.rollback().await.unwrap();
    let all = steps.iter().find(|step| step.name == "all").unwrap();
    assert_eq!(all.counters.write, 4, "each partition counts once");
    restarting.abort();
    timeout(LONG, helper.stop_all(LONG)).await.unwrap();
    timeout(LONG, working).await.unwrap().unwrap();
}

async fn only_processes_with_the_same_definition_help_and_a_change_has_to_be_accepted(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let (bench, places) = (&stand.bench, Places::default());
    let clock: Arc<dyn Clock> = stand.clock.clone();
    let changed = places.job("there", 3, false).fingerprint("two");
    let (_process, helper) = other(bench, clock, "there", &changed).await;
    let working = tokio::spawn(run_worker(helper.clone(), 2));
    places.wait_at(&["here"]);
    let job = places.job("here", 3, false).fingerprint("one");
    let launcher = bench.launcher(&job).unwrap();
    let running = launcher.launch("placed", &day(1), &Actor::system()).await.unwrap();
    until("the manager runs one", || places.ran_at("here") == 1).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    timeout(LONG, launcher.stop_all(Duration::ZERO)).await.unwrap();
    let end = timeout(LONG, running.ended()).await.unwrap().unwrap();
    assert_eq!((end.status, places.ran_at("there")), (BatchStatus::Stopped, 0));

    let refused = helper.launch("placed", &day(1), &Actor::system()).await.unwrap_err();
    let JobError::Refused { refusal, .. } = refused else { panic!("{refused}") };
    assert_eq!(refusal, LaunchRefusal::DefinitionChanged);
    let accepting = helper.clone().accept_change(true);
    let running = accepting.launch("placed", &day(1), &Actor::system()).await.unwrap();
    let end = timeout(LONG, running.ended()).await.unwrap().unwrap();

    assert_eq!((end.status, places.ran_at("there")), (BatchStatus::Completed, 3));
    timeout(LONG, helper.stop_all(LONG)).await.unwrap();
    timeout(LONG, working).await.unwrap().unwrap();
}

async fn a_stop_reaches_long_work_in_another_process(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let bench = &stand.bench;
    let worker = || Step::command("w", |_| Ok(CommandSpec::new("sleep").arg("600")));
    let parts = |_: &StepScope, grid| Ok((0..grid).map(|n| Partition::new(format!("p{n}"))).collect());
    let divided = Step::partitioned("all", worker(), parts).grid(2).concurrency(1).build();
    let job = Job::new("long").step(divided);
    let clock: Arc<dyn Clock> = stand.clock.clone();
    let (_process, helper) = other(bench, clock, "there", &job).await;
    let working = tokio::spawn(run_worker(helper.clone(), 1));
    let launcher = bench.launcher(&job).unwrap();
    let running = launcher.launch("long", &day(1), &Actor::system()).await.unwrap();
    let both_run = async {
        loop {
            let mut tx = bench.store().read().await.unwrap();
            let steps = tx.jobs().steps(running.execution).await.unwrap();
            tx.rollback().await.unwrap();
            if steps.iter().filter(|step| step.process.is_some()).count() == 2 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, both_run).await.unwrap();

    let mut tx = bench.store().begin().await.unwrap();
    let _asked = tx.jobs().request_stop(running.execution, &Actor::system(), None).await.unwrap();
    tx.commit().await.unwrap();
    let end = timeout(LONG, running.ended()).await.unwrap().unwrap();

    assert_eq!(end.status, BatchStatus::Stopped);
    timeout(LONG, helper.stop_all(LONG)).await.unwrap();
    timeout(LONG, working).await.unwrap().unwrap();
}

/// While a partition of one flow runs in the other process, a step of another flow sets a value, which the partitions of the
/// step after it read there. Each step has two partitions, of which at most one waits here.
async fn a_partition_elsewhere_reads_values_that_were_set_after_another_one_began_there(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let bench = &stand.bench;
    let (began, read) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Vec<Option<i64>>>>::default());
    let job = |here: &'static str| {
        let worker = |name: &'static str| {
            let (began, read) = (began.clone(), read.clone());
            Step::tasklet(name, move |scope| {
                let (began, read) = (began.clone(), read.clone());
                async move {
                    match (here, name) {
                        ("there", "w1") => began.store(true, Ordering::SeqCst),
                        ("there", _) => {
                            let total = scope.step().job_context().get_long("total");
                            read.lock().unwrap().push(total);
                        }
                        _ => {}
                    }
                    until("the value is read", || !read.lock().unwrap().is_empty()).await;
                    Ok(())
                }
            })
        };
        let began = began.clone();
        let set = Step::tasklet("set", move |mut scope| {
            let began = began.clone();
            async move {
                until("a partition runs there", || began.load(Ordering::SeqCst)).await;
                scope.context().put("total", 7);
                Ok(())
            }
        });
        let parts = |_: &StepScope, grid| Ok((0..grid).map(|n| Partition::new(format!("p{n}"))).collect());
        let divided = |name, worker| Step::partitioned(name, worker, parts).grid(2).concurrency(1).build();
        let left = StepFlow::new().step(divided("all1", worker("w1")));
        let right = StepFlow::new().step(set.promote(["total"])).step(divided("all2", worker("w2")));
        Job::new("handed").split("both", [left, right])
    };
    let (_process, helper) = other(bench, stand.clock.clone(), "there", &job("there")).await;
    let working = tokio::spawn(run_worker(helper.clone(), 4));
    let launcher = bench.launcher(&job("here")).unwrap();

    let running = launcher.launch("handed", &day(1), &Actor::system()).await.unwrap();
    let end = timeout(LONG, running.ended()).await.unwrap().unwrap();

    assert_eq!(end.status, BatchStatus::Completed);
    assert!(read.lock().unwrap().iter().all(|total| *total == Some(7)), "{read:?}");
    timeout(LONG, helper.stop_all(LONG)).await.unwrap();
    timeout(LONG, working).await.unwrap().unwrap();
}
