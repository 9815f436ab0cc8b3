//! The vectors of the real Spring Batch for launches, flows and restarts, on both databases. Cases are named as in
//! the file of vectors.

use super::Stand;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::flow::Target;
use tidemill_domain::job::{ExitStatus, JobParameters};
use tidemill_engine::job::{Job, JobError, RepeatStatus, Step, TaskletScope};
use tidemill_engine::testing::JobBench;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    launches_and_restarts_end_as_in_the_real_engine,
    start_rules_of_steps_hold_over_restarts,
    a_run_that_counts_as_running_abandoned_or_unknown_is_treated_as_in_the_real_engine,
    a_failure_can_lead_on_and_is_then_done_with,
    the_most_specific_pattern_of_an_exit_code_counts,
    a_flow_ends_fails_or_stops_where_it_says_so,
    a_decision_says_where_to_go,
    exit_codes_of_a_step_are_combined_and_kept_when_it_fails,
];

const VECTORS: &str = include_str!("../../../../../vectors/spring_batch_5.2.6/flow_restart.txt");

/// Which steps ran, and which shall fail.
#[derive(Clone, Default)]
pub(super) struct World {
    ran: Arc<Mutex<Vec<String>>>,
    fails: Arc<Mutex<BTreeSet<String>>>,
    /// The exit code of `s1`.
    exit: Arc<Mutex<Option<&'static str>>>,
}

impl World {
    pub(super) fn fail(&self, steps: &[&str]) {
        *self.fails.lock().unwrap() = steps.iter().map(|step| (*step).to_owned()).collect();
    }

    fn exit(&self, code: &'static str) {
        *self.exit.lock().unwrap() = Some(code);
    }

    pub(super) fn ran(&self, step: &str) {
        self.ran.lock().unwrap().push(step.to_owned());
    }

    pub(super) fn step(&self, name: &str) -> Step {
        let world = self.clone();
        Step::tasklet(name, move |scope| std::future::ready(world.run(scope)))
    }

    fn run(&self, mut scope: TaskletScope) -> Result<(), ItemError> {
        let name = scope.step().step().to_owned();
        self.ran(&name);
        if self.fails.lock().unwrap().contains(&name) {
            return Err(ItemError::new(ErrorKind::PROCESS, format!("boom {name}")));
        }
        if let Some(code) = *self.exit.lock().unwrap()
            && name == "s1"
        {
            scope.set_exit(ExitStatus::new(code));
        }
        Ok(())
    }
}

/// What the vector of this name says, up to what depends on the run.
pub(super) fn vector(name: &str) -> String {
    let line = VECTORS.lines().find(|line| line.split(' ').next() == Some(name)).unwrap();
    let at = line.find("job=").or_else(|| line.find("THROWS")).unwrap();
    let said = line[at..].split("  EX=").next().unwrap();
    said.split(": ").next().unwrap().trim().to_owned()
}

/// Launches, and tells what happened in the notation of the vectors.
pub(super) async fn launch(bench: &JobBench, world: &World, job: &Job, parameters: &JobParameters) -> String {
    world.ran.lock().unwrap().clear();
    match bench.run(job, parameters).await {
        Ok(run) => {
            let steps: Vec<String> =
                run.steps().map(|step| format!("{}={}/{}", step.name, step.status, step.exit.code)).collect();
            let ran = world.ran.lock().unwrap().join(", ");
            format!("job={}/{} ran=[{ran}] | {}", run.end.status, run.end.exit.code, steps.join(" "))
                .trim()
                .to_owned()
        }
        Err(JobError::Refused { refusal, .. }) => {
            use tidemill_domain::job::launch::LaunchRefusal as Refusal;
            let class = match refusal {
                Refusal::AlreadyComplete(_) => "JobInstanceAlreadyCompleteException",
                Refusal::AlreadyRunning | Refusal::StepRunning { .. } => {
                    "JobExecutionAlreadyRunningException"
                }
                Refusal::NotRestartable | Refusal::OutcomeUnknown | Refusal::StepUnknown { .. } => {
                    "JobRestartException"
                }
                other => panic!("{other}"),
            };
            format!("THROWS {class}")
        }
        Err(error) => panic!("{error}"),
    }
}

/// Sets what an operator of Spring Batch would set by hand.
async fn set(bench: &JobBench, job: &str, status: &str, step_status: Option<&str>) {
    let mut tx = bench.store().begin().await.unwrap();
    let executions = format!(
        "select max(e.job_execution_id) from batch_job_execution e \
         join batch_job_instance i on i.job_instance_id = e.job_instance_id where i.job_name = '{job}'"
    );
    tx.execute_for_test(&format!(
        "update batch_job_execution set status = '{status}' where job_execution_id = ({executions})"
    ))
    .await
    .unwrap();
    if let Some(step_status) = step_status {
        tx.execute_for_test(&format!(
            "update batch_step_execution set status = '{step_status}' \
             where step_name = 'b' and job_execution_id = ({executions})"
        ))
        .await
        .unwrap();
    }
    tx.commit().await.unwrap();
}

pub(super) fn day(number: i64) -> JobParameters {
    JobParameters::new().with("day", number)
}

async fn launches_and_restarts_end_as_in_the_real_engine(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let (bench, world) = (&stand.bench, World::default());
    let plain = Job::new("plain").step(world.step("a")).step(world.step("b"));
    assert_eq!(launch(bench, &world, &plain, &day(1)).await, vector("A1"));
    assert_eq!(launch(bench, &world, &plain, &day(1)).await, vector("A2"));
    let empty = JobParameters::new();
    assert_eq!(launch(bench, &world, &plain, &empty).await, vector("A3"));
    assert_eq!(launch(bench, &world, &plain, &empty).await, vector("A4"));
}

async fn start_rules_of_steps_hold_over_restarts(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let (bench, world) = (&stand.bench, World::default());
    world.fail(&["b"]);
    let job = Job::new("limited")
        .step(world.step("a"))
        .step(world.step("a2").allow_start_if_complete())
        .step(world.step("b").start_limit(2));
    assert_eq!(launch(bench, &world, &job, &day(1)).await, vector("B1"));
    assert_eq!(launch(bench, &world, &job, &day(1)).await, vector("B2"));
    assert_eq!(launch(bench, &world, &job, &day(1)).await, vector("B3"));
    let once = Job::new("once").step(world.step("a")).step(world.step("b")).not_restartable();
    assert_eq!(launch(bench, &world, &once, &day(1)).await, vector("B4"));
    assert_eq!(launch(bench, &world, &once, &day(1)).await, vector("B5"));
}

async fn a_run_that_counts_as_running_abandoned_or_unknown_is_treated_as_in_the_real_engine(
    scratch: Scratch,
) {
    let stand = Stand::on(scratch).await;
    let (bench, world) = (&stand.bench, World::default());
    let job = |name: &str| Job::new(name).step(world.step("a")).step(world.step("b"));
    let stuck = job("stuck");
    world.fail(&["b"]);
    assert_eq!(launch(bench, &world, &stuck, &day(1)).await, vector("M1"));
    set(bench, "stuck", "STARTED", Some("STARTED")).await;
    assert_eq!(launch(bench, &world, &stuck, &day(1)).await, vector("M2"));
    set(bench, "stuck", "FAILED", Some("STARTED")).await;
    assert_eq!(launch(bench, &world, &stuck, &day(1)).await, vector("M3"));
    set(bench, "stuck", "FAILED", Some("FAILED")).await;
    world.fail(&[]);
    assert_eq!(launch(bench, &world, &stuck, &day(1)).await, vector("M4"));

    let given_up = job("given-up");
    world.fail(&["b"]);
    assert_eq!(launch(bench, &world, &given_up, &day(1)).await, vector("N1"));
    set(bench, "given-up", "ABANDONED", None).await;
    assert_eq!(launch(bench, &world, &given_up, &day(1)).await, vector("N2"));
    set(bench, "given-up", "UNKNOWN", None).await;
    assert_eq!(launch(bench, &world, &given_up, &day(1)).await, vector("N3"));
}

pub(super) fn to(name: &str) -> Target {
    Target::To(name.into())
}

async fn a_failure_can_lead_on_and_is_then_done_with(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let (bench, world) = (&stand.bench, World::default());
    let job = Job::new("recovering")
        .step(world.step("s1"))
        .step(world.step("s2"))
        .step(world.step("rec"))
        .on("s1", "FAILED", to("rec"))
        .on("s1", "*", to("s2"))
        .on("s2", "COMPLETED", Target::End(None))
        .on("s2", "*", Target::Fail);
    assert_eq!(launch(bench, &world, &job, &day(1)).await, vector("D1"));
    world.fail(&["s1"]);
    assert_eq!(launch(bench, &world, &job, &day(2)).await, vector("D2"));
    assert_eq!(launch(bench, &world, &job, &day(2)).await, vector("D3"));
    world.fail(&["s1", "rec"]);
    assert_eq!(launch(bench, &world, &job, &day(3)).await, vector("D4"));
    world.fail(&[]);
    assert_eq!(launch(bench, &world, &job, &day(3)).await, vector("D5"));
}

async fn the_most_specific_pattern_of_an_exit_code_counts(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let (bench, world) = (&stand.bench, World::default());
    let job = Job::new("patterns")
        .step(world.step("s1"))
        .step(world.step("s2"))
        .step(world.step("s3"))
        .step(world.step("rec"))
        .on("s1", "C*", to("s2"))
        .on("s1", "COMPLETED", to("s3"))
        .on("s1", "COMPLETED WITH*", to("rec"))
        .on("s2", "*", Target::End(None))
        .on("s3", "*", Target::End(None));
    assert_eq!(launch(bench, &world, &job, &day(1)).await, vector("E1"));
    world.exit("COMPLETED WITH SKIPS");
    assert_eq!(launch(bench, &world, &job, &day(2)).await, vector("E2"));
    world.exit("CUSTOM");
    assert_eq!(launch(bench, &world, &job, &day(3)).await, vector("E3"));
    world.exit("WEIRD");
    assert_eq!(launch(bench, &world, &job, &day(4)).await, vector("E4"));
}

async fn a_flow_ends_fails_or_stops_where_it_says_so(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let (bench, world) = (&stand.bench, World::default());
    let job = |name: &str, pattern: &str, target: Target| {
        Job::new(name).step(world.step("s1")).step(world.step("s2")).on("s1", pattern, target).on(
            "s1",
            "*",
            to("s2"),
        )
    };
    world.fail(&["s1"]);
    let ends = job("ends", "FAILED", Target::End(None));
    assert_eq!(launch(bench, &world, &ends, &day(1)).await, vector("G1"));
    let fails = job("fails", "FAILED", Target::Fail);
    assert_eq!(launch(bench, &world, &fails, &day(1)).await, vector("G3"));
    world.fail(&[]);
    assert_eq!(launch(bench, &world, &fails, &day(1)).await, vector("G3r"));
    let again = job("again", "COMPLETED", Target::Stop(Some("s2".into())));
    assert_eq!(launch(bench, &world, &again, &day(1)).await, vector("G4"));
    assert_eq!(launch(bench, &world, &again, &day(1)).await, vector("G4r"));
    let stops = job("stops", "COMPLETED", Target::Stop(None));
    assert_eq!(launch(bench, &world, &stops, &day(1)).await, vector("G5"));
    assert_eq!(launch(bench, &world, &stops, &day(1)).await, vector("G5r"));
}

async fn a_decision_says_where_to_go(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let (bench, world) = (&stand.bench, World::default());
    let job = Job::new("deciding")
        .step(world.step("s1"))
        .decision("is-even", |decision| {
            assert_eq!(decision.last.unwrap().1.code, "COMPLETED");
            Ok("EVEN".to_owned())
        })
        .step(world.step("s2"))
        .step(world.step("s3"))
        .on("is-even", "EVEN", to("s2"))
        .on("is-even", "ODD", to("s3"))
        .on("s2", "*", Target::End(None));
    assert_eq!(launch(bench, &world, &job, &day(1)).await, vector("H1"));
}

async fn exit_codes_of_a_step_are_combined_and_kept_when_it_fails(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let (bench, world) = (&stand.bench, World::default());
    // One code in each call of s1; the last call may fail.
    let coded = |codes: &'static [&'static str], fails: bool| {
        let (world, calls) = (world.clone(), Arc::new(Mutex::new(0)));
        Step::tasklet("s1", move |mut scope| {
            let mut calls = calls.lock().unwrap();
            if *calls == 0 {
                world.ran("s1");
            }
            scope.set_exit(ExitStatus::new(codes[*calls]));
            *calls += 1;
            std::future::ready(match *calls < codes.len() {
                true => Ok(RepeatStatus::Continuable),
                false if fails => Err(ItemError::new(ErrorKind::PROCESS, "boom")),
                false => Ok(RepeatStatus::Finished),
            })
        })
    };
    let flow = |first: Step| {
        Job::new("coded")
            .step(first)
            .step(world.step("s2"))
            .step(world.step("rec"))
            .on("s1", "CUSTOM", to("rec"))
            .on("s1", "COMPLETED", to("s2"))
            .on("s1", "FAILED", Target::Fail)
            .on("s2", "*", Target::End(None))
            .on("rec", "*", Target::End(None))
    };
    let cases: [(&'static [&'static str], bool, String); 9] = [
        (&["CUSTOM"], true, vector("Q1")),
        (&["COMPLETED"], true, vector("Q2")),
        (&["NOOP"], true, vector("Q3")),
        (&["OTHER"], true, vector("Q4")),
        (&["CUSTOM", "COMPLETED"], false, vector("Q5")),
        (&["CUSTOM", "ALPHA"], false, vector("Q6")),
        (&["EXECUTING"], false, vector("Q7")),
        (&["COMPLETED", "CUSTOM"], false, vector("Q8")),
        (&["CUSTOM", "EXECUTING"], true, vector("Q9")),
    ];
    for (number, (codes, fails, expected)) in (1..).zip(cases) {
        let job = flow(coded(codes, fails));
        assert_eq!(launch(bench, &world, &job, &day(number)).await, expected, "{codes:?}");
    }
    let simple = |first: Step| Job::new("coded-simple").step(first).step(world.step("s2"));
    let failing = simple(coded(&["CUSTOM"], true));
    assert_eq!(launch(bench, &world, &failing, &day(1)).await, vector("Q10"));
    let again = simple(coded(&["CUSTOM"], false));
    assert_eq!(launch(bench, &world, &again, &day(1)).await, vector("Q10r"));
    let executing = simple(coded(&["EXECUTING"], false));
    assert_eq!(launch(bench, &world, &executing, &day(2)).await, vector("Q11"));
}

/// The labels of the vectors that no test in this text compares with, and are therefore not reproduced.
fn unused(vectors: &str, tests: &str) -> Vec<String> {
    let used: BTreeSet<&str> =
        tests.split("vector(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let labels =
        vectors.lines().filter(|line| !line.starts_with(' ')).filter_map(|line| line.split(' ').next());
    labels.filter(|label| !used.contains(label)).map(str::to_owned).collect()
}

#[test]
fn every_vector_is_compared_with() {
    let used =
        concat!(include_str!("launch_vector.rs"), include_str!("flow.rs"), include_str!("partition.rs"));
    assert_eq!(unused(VECTORS, used), Vec::<&str>::new());
}

#[test]
fn a_vector_that_was_forgotten_is_found() {
    let vectors = "Y1 one case   job=COMPLETED\n   more of it\nY2 another   THROWS it\n";
    let used = |labels: &[&str]| {
        let calls = labels.iter().map(|label| format!("vector({label:?}), "));
        calls.collect::<String>()
    };

    assert_eq!(unused(vectors, &used(&["Y1"])), ["Y2"]);
    assert_eq!(unused(vectors, &used(&["Y2", "Y1"])), [""; 0]);
}
