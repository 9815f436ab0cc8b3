//! Steps that are divided, over one process and over several.

use super::Stand;
use super::launch_vector::{day, vector};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::code::Code;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::launch::LaunchRefusal;
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::{BatchStatus, Counters, ExecutionContext, ExecutionId};
use tidemill_domain::time::Clock;
use tidemill_engine::item::{ItemsReader, ItemsWriter};
use tidemill_engine::job::listener::StepListener;
use tidemill_engine::job::partition::run_worker;
use tidemill_engine::job::{
    CommandSpec, Job, JobError, JobRegistry, Launcher, Partition, RepeatStatus, Step, StepScope, Tasklet,
    TaskletScope, recovery,
};
use tidemill_engine::testing::{JobBench, TestRun};
use tidemill_engine::{Process, reaper};
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(60);

/// Notes who ran, and fails where it shall.
#[derive(Clone, Default)]
struct World {
    ran: Arc<Mutex<Vec<String>>>,
    fails: Arc<Mutex<BTreeSet<String>>>,
    /// How often the partitioner was called.
    calls: Arc<AtomicUsize>,
}

struct Part(World);

impl Tasklet for Part {
    async fn execute(&mut self, scope: &mut TaskletScope<'_>) -> Result<RepeatStatus, ItemError> {
        let name = scope.step().step().to_owned();
        let value =
            scope.step().context().get("value").and_then(|value| value.as_str()).unwrap_or("").to_owned();
        self.0.ran.lock().unwrap().push(format!("{name}:{value}"));
        if self.0.fails.lock().unwrap().contains(&name) {
            return Err(ItemError::new(ErrorKind::PROCESS, format!("boom {name}")));
        }
        Ok(RepeatStatus::Finished)
    }
}

impl World {
    fn fail(&self, partitions: &[&str]) {
        *self.fails.lock().unwrap() = partitions.iter().map(|name| (*name).to_owned()).collect();
    }

    fn worker(&self) -> Step {
        let world = self.clone();
        Step::tasklet("w", move |_| Ok(Part(world.clone())))
    }

    fn partitions(&self) -> impl Fn(&StepScope, usize) -> Result<Vec<Partition>, ItemError> + use<> {
        let calls = self.calls.clone();
        move |_, grid| {
            let call = calls.fetch_add(1, Ordering::SeqCst) + 1;
            let part = |n| Partition::new(format!("p{n}")).with("value", format!("v{n}/{grid}#{call}"));
            Ok((0..grid).map(part).collect())
        }
    }

    fn ran(&self) -> Vec<String> {
        let mut ran = std::mem::take(&mut *self.ran.lock().unwrap());
        ran.sort();
        ran
    }
}

/// In the notation of the vectors, partitions in no order.
fn said(text: &str) -> (String, BTreeSet<String>, BTreeSet<String>) {
    let (head, steps) = text.split_once(" | ").unwrap();
    let (job, ran) = head.split_once(" ran=[").unwrap();
    let set = |text: &str, by: &str| {
        text.split(by).map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    (job.to_owned(), set(ran.trim_end_matches(']'), ","), set(steps, " "))
}

fn notation(run: &TestRun, ran: &[String]) -> String {
    let steps: Vec<String> =
        run.steps().map(|step| format!("{}={}/{}", step.name, step.status, step.exit.code)).collect();
    format!("job={}/{} ran=[{}] | {}", run.end.status, run.end.exit.code, ran.join(", "), steps.join(" "))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_fail_and_are_restarted_as_in_the_real_engine() {
    for stand in Stand::both().await {
        let (bench, world) = (&stand.bench, World::default());
        let divided = Step::partitioned("mgr", world.worker(), world.partitions()).grid(3).build();
        let job = Job::new("divided").step(divided);
        world.fail(&["w:p1"]);

        let first = bench.run(&job, &day(1)).await.unwrap();
        assert_eq!(said(&notation(&first, &world.ran())), said(&vector("L1")));
        assert!(
            first.end.exit.description.contains("1 of 3 partitions failed; the first, w:p1: ")
                && first.end.exit.description.contains("boom w:p1"),
            "{}",
            first.end.exit.description
        );

        world.fail(&[]);
        let second = bench.run(&job, &day(1)).await.unwrap();
        assert_eq!(said(&notation(&second, &world.ran())), said(&vector("L2")));
        assert_eq!(world.calls.load(Ordering::SeqCst), 2);
        let context = second.context("mgr").unwrap();
        assert_eq!(context.get_long("SimpleStepExecutionSplitter.GRID_SIZE"), Some(3));
    }
}

/// A step that copies so many numbers per partition, and fails at some of them while it is told to.
fn copying(written: &ItemsWriter<i64>, bad: &Arc<Mutex<BTreeSet<i64>>>) -> Step {
    let (written, bad) = (written.clone(), bad.clone());
    Step::chunk("copy", 10)
        .reader(|scope| {
            let (from, to) = (scope.context().get_long("from"), scope.context().get_long("to"));
            Ok(ItemsReader::new("numbers", from.unwrap()..=to.unwrap()))
        })
        .process(move |n: &i64| {
            if bad.lock().unwrap().contains(n) {
                return Err(ItemError::new(ErrorKind::PROCESS, format!("bad {n}")));
            }
            Ok((n % 7 != 0).then_some(*n))
        })
        .writer(move |_| Ok(written.clone()))
        .build()
}

fn numbers(written: &ItemsWriter<i64>, bad: &Arc<Mutex<BTreeSet<i64>>>) -> Job {
    let divided =
        Step::partitioned("all", copying(written, bad), |_: &_, grid| Ok(Partition::ranges(1, 1000, grid)));
    Job::new("numbers").step(divided.grid(8).concurrency(3).build()).on_crash(OnCrash::Fail)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_are_those_of_all_partitions_over_all_restarts() {
    for stand in Stand::both().await {
        let (bench, written) = (&stand.bench, ItemsWriter::default());
        let bad = Arc::new(Mutex::new(BTreeSet::from([333, 777])));
        let job = numbers(&written, &bad);

        let first = bench.run(&job, &day(1)).await.unwrap();
        assert_eq!(first.end.status, BatchStatus::Failed);
        bad.lock().unwrap().clear();
        bad.lock().unwrap().insert(800);
        let second = bench.run(&job, &day(1)).await.unwrap();
        assert_eq!((second.end.status, second.steps().count()), (BatchStatus::Failed, 3));
        bad.lock().unwrap().clear();
        let third = bench.run(&job, &day(1)).await.unwrap();

        assert!(third.is_completed());
        let mut items = written.items();
        items.sort_unstable();
        let expected: Vec<i64> = (1..=1000).filter(|n| n % 7 != 0).collect();
        assert_eq!(items, expected, "nothing lost, nothing twice");
        let counters = third.step("all").unwrap().counters;
        let mut sum = Counters::default();
        for run in [&first, &second, &third] {
            for partition in run.steps().filter(|step| step.name.starts_with("copy:")) {
                sum += partition.counters;
            }
        }
        assert_eq!((counters, counters.write), (sum, 858));
        assert_eq!(counters.read, 1000 + 30, "three chunks of ten were read twice");
        assert_eq!(third.steps().count(), 2, "only what had not completed ran again");
    }
}

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

struct Placed(Places, String);

impl Tasklet for Placed {
    async fn execute(&mut self, scope: &mut TaskletScope<'_>) -> Result<RepeatStatus, ItemError> {
        let name = scope.step().step().to_owned();
        self.0.ran.lock().unwrap().push((self.1.clone(), name));
        while self.0.waits.lock().unwrap().contains(&self.1) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        scope.contribution().write += 1;
        Ok(RepeatStatus::Finished)
    }
}

impl Places {
    /// The job as the process `here` has it.
    fn job(&self, here: &str, grid: usize, is_local: bool) -> Job {
        let (places, here) = (self.clone(), here.to_owned());
        let worker = Step::tasklet("w", move |_| Ok(Placed(places.clone(), here.clone())));
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_takes_part_unless_the_step_is_local() {
    for stand in Stand::both().await {
        for is_local in [false, true] {
            let (bench, places) = (&stand.bench, Places::default());
            let clock: Arc<dyn Clock> = stand.clock.clone();
            let (_process, helper) = other(bench, clock, "there", &places.job("there", 6, is_local)).await;
            let working = tokio::spawn(run_worker(helper.clone(), 2));
            places.wait_at(&["here"]);
            let launcher = bench.launcher(&places.job("here", 6, is_local)).unwrap();
            let running =
                launcher.launch("placed", &day(i64::from(is_local)), &Actor::system()).await.unwrap();
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
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_partition_of_a_dead_process_moves_and_its_ghost_is_refused() {
    for stand in Stand::both().await {
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
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_shut_down_hands_its_partition_back() {
    for stand in Stand::both().await {
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
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_all_partitions_wherever_they_run_and_a_restart_goes_on() {
    for stand in Stand::both().await {
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
        let _asked = tx.request_stop(running.execution, &Actor::system(), None).await.unwrap();
        tx.commit().await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        places.wait_at(&[]);
        let end = timeout(LONG, running.ended()).await.unwrap().unwrap();

        assert_eq!(end.status, BatchStatus::Stopped);
        let run = bench.look(end).await.unwrap();
        let stopped = run.steps().filter(|step| step.status == BatchStatus::Stopped).count();
        assert!(stopped >= 4, "the step and what nobody had begun");
        let again = bench.run(&job, &day(1)).await.unwrap();
        assert_eq!(
            (again.end.status, again.step("all").unwrap().counters.write),
            (BatchStatus::Completed, 5)
        );
        timeout(LONG, helper.stop_all(LONG)).await.unwrap();
        timeout(LONG, working).await.unwrap().unwrap();
    }
}

async fn failed(bench: &JobBench, id: ExecutionId) -> bool {
    let mut tx = bench.store().read().await.unwrap();
    let found = tx.execution(id).await.unwrap().unwrap().execution.status;
    tx.rollback().await.unwrap();
    found == BatchStatus::Failed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_manager_is_replaced_and_the_partitions_of_before_are_fenced() {
    for stand in Stand::both().await {
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
                let all = tx.executions(&Default::default(), None, 10).await.unwrap();
                tx.rollback().await.unwrap();
                if all[0].status == BatchStatus::Completed {
                    return all[0].id;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let second = timeout(LONG, ended).await.unwrap();

        let mut tx = bench.store().read().await.unwrap();
        let steps = tx.steps(second).await.unwrap();
        tx.rollback().await.unwrap();
        let all = steps.iter().find(|step| step.name == "all").unwrap();
        assert_eq!(all.counters.write, 4, "each partition counts once");
        restarting.abort();
        timeout(LONG, helper.stop_all(LONG)).await.unwrap();
        timeout(LONG, working).await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_cannot_be_told_apart_fail_the_step_with_a_code_of_their_own() {
    let stand = Stand::both().await.remove(0);
    let world = World::default();
    let twice = |_: &StepScope, _| Ok(vec![Partition::new("a"), Partition::new("a")]);
    let job = Job::new("twice").step(Step::partitioned("mgr", world.worker(), twice).build());

    let run = stand.bench.run(&job, &day(1)).await.unwrap();

    assert_eq!((run.end.status, run.end.code), (BatchStatus::Failed, Some(Code::BadPartitions)));
    assert!(world.ran().is_empty());
}

#[test]
fn a_division_that_makes_no_sense_is_refused() {
    let world = World::default();
    let divided = || Step::partitioned("mgr", world.worker(), world.partitions());
    for (job, reason) in [
        (Job::new("j").step(divided().grid(0).build()), "grid is 0"),
        (Job::new("j").step(divided().concurrency(0).build()), "concurrency is 0"),
        (Job::new("j").step(divided().build()).step(world.worker()), "two steps are called \"w\""),
        (
            Job::new("j").step(Step::partitioned("outer", divided().build(), world.partitions()).build()),
            "divided as well",
        ),
    ] {
        let refused = job.check().unwrap_err().to_string();
        assert!(refused.contains(reason), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_processes_with_the_same_definition_help_and_a_change_has_to_be_accepted() {
    for stand in Stand::both().await {
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
}

struct Panics;

impl StepListener for Panics {
    fn before_step(&self, _: &StepScope, _: &mut ExecutionContext) {
        panic!("no listener");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_panics_fails_the_partition_and_is_not_asked_for_ever() {
    for stand in Stand::both().await {
        let world = World::default();
        let divided =
            Step::partitioned("mgr", world.worker().listener(Panics), world.partitions()).grid(2).build();

        let run =
            timeout(LONG, stand.bench.run(&Job::new("loud").step(divided), &day(1))).await.unwrap().unwrap();

        assert_eq!(run.end.status, BatchStatus::Failed);
        assert!(run.end.exit.description.contains("2 of 2 partitions failed"), "{:?}", run.end);
        assert!(run.step("w:p0").unwrap().exit.description.contains("no listener"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_reaches_long_work_in_another_process() {
    for stand in Stand::both().await {
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
                let steps = tx.steps(running.execution).await.unwrap();
                tx.rollback().await.unwrap();
                if steps.iter().filter(|step| step.process.is_some()).count() == 2 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(LONG, both_run).await.unwrap();

        let mut tx = bench.store().begin().await.unwrap();
        let _asked = tx.request_stop(running.execution, &Actor::system(), None).await.unwrap();
        tx.commit().await.unwrap();
        let end = timeout(LONG, running.ended()).await.unwrap().unwrap();

        assert_eq!(end.status, BatchStatus::Stopped);
        timeout(LONG, helper.stop_all(LONG)).await.unwrap();
        timeout(LONG, working).await.unwrap().unwrap();
    }
}
