//! Steps that are divided, over one process and over several.

use super::Stand;
use super::launch_vector::{day, vector};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::{BatchStatus, Counters, ExecutionContext};
use tidemill_engine::item::{ItemsReader, ItemsWriter};
use tidemill_engine::job::listener::StepListener;
use tidemill_engine::job::{Job, Partition, Step, StepScope, TaskletScope};
use tidemill_engine::testing::TestRun;
use tidemill_store::scratch::Scratch;
use tokio::time::timeout;

tidemill_store::on_both![
    partitions_fail_and_are_restarted_as_in_the_real_engine,
    counters_are_those_of_all_partitions_over_all_restarts,
    a_listener_that_panics_fails_the_partition_and_is_not_asked_for_ever,
];

const LONG: Duration = Duration::from_secs(60);

/// Notes who ran, and fails where it shall.
#[derive(Clone, Default)]
struct World {
    ran: Arc<Mutex<Vec<String>>>,
    fails: Arc<Mutex<BTreeSet<String>>>,
    /// How often the partitioner was called.
    calls: Arc<AtomicUsize>,
}

impl World {
    fn fail(&self, partitions: &[&str]) {
        *self.fails.lock().unwrap() = partitions.iter().map(|name| (*name).to_owned()).collect();
    }

    fn worker(&self) -> Step {
        let world = self.clone();
        Step::tasklet("w", move |scope| std::future::ready(world.run(&scope)))
    }

    fn run(&self, scope: &TaskletScope) -> Result<(), ItemError> {
        let name = scope.step().step().to_owned();
        let value = scope.step().context().get_text("value").unwrap_or("");
        self.ran.lock().unwrap().push(format!("{name}:{value}"));
        if self.fails.lock().unwrap().contains(&name) {
            return Err(ItemError::new(ErrorKind::PROCESS, format!("boom {name}")));
        }
        Ok(())
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

async fn partitions_fail_and_are_restarted_as_in_the_real_engine(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
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

/// A step that copies so many numbers per partition, and fails at some of them while it is told to.
fn copying(written: &ItemsWriter<i64>, bad: &Arc<Mutex<BTreeSet<i64>>>) -> Step {
    let (written, bad) = (written.clone(), bad.clone());
    Step::chunk("copy", 10)
        .reader_with(|scope| {
            let (from, to) = (scope.context().get_long("from"), scope.context().get_long("to"));
            Ok(ItemsReader::new("numbers", from.unwrap()..=to.unwrap()))
        })
        .process(move |n: &i64| {
            if bad.lock().unwrap().contains(n) {
                return Err(ItemError::new(ErrorKind::PROCESS, format!("bad {n}")));
            }
            Ok((n % 7 != 0).then_some(*n))
        })
        .writer(written)
        .build()
}

fn numbers(written: &ItemsWriter<i64>, bad: &Arc<Mutex<BTreeSet<i64>>>) -> Job {
    let divided =
        Step::partitioned("all", copying(written, bad), |_: &_, grid| Ok(Partition::ranges(1, 1000, grid)));
    Job::new("numbers").step(divided.grid(8).concurrency(3).build()).on_crash(OnCrash::Fail)
}

async fn counters_are_those_of_all_partitions_over_all_restarts(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_cannot_be_told_apart_fail_the_step_with_a_code_of_their_own() {
    let stand = Stand::on(Scratch::file()).await;
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

struct Panics;

impl StepListener for Panics {
    fn before_step(&self, _: &StepScope, _: &mut ExecutionContext) {
        panic!("no listener");
    }
}

async fn a_listener_that_panics_fails_the_partition_and_is_not_asked_for_ever(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let world = World::default();
    let divided =
        Step::partitioned("mgr", world.worker().listener(Panics), world.partitions()).grid(2).build();

    let run =
        timeout(LONG, stand.bench.run(&Job::new("loud").step(divided), &day(1))).await.unwrap().unwrap();

    assert_eq!(run.end.status, BatchStatus::Failed);
    assert!(run.end.exit.description.contains("2 of 2 partitions failed"), "{:?}", run.end);
    assert!(run.step("w:p0").unwrap().exit.description.contains("no listener"));
}
