//! Applications of a real Spark, in local mode. Each test starts a Java machine, so there are few.

use super::command::{Yard, gone, is_running};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::code::Code;
use tidemill_domain::job::{BatchStatus, JobParameters};
use tidemill_engine::job::{Granted, Job, SparkSpec, Step};
use tidemill_testkit::skip;

/// The variable that names the home of a Spark.
const SPARK_HOME: &str = "TIDEMILL_TEST_SPARK_HOME";

const APP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/engine/job/spark_app.py");

const HINT: &str = "/*+ PARALLEL(A 2) */";

fn home() -> Option<PathBuf> {
    skip::require("spark", std::env::var_os(SPARK_HOME)).map(PathBuf::from)
}

/// The application in one of its modes.
fn job(home: &Path, yard: &Yard, mode: &str) -> Job {
    let submit = home.join("bin/spark-submit");
    let (mode, input, output) = (mode.to_owned(), yard.path("in.csv"), yard.path("out"));
    let step = Step::spark("extract", move |_| {
        Ok(SparkSpec::new(APP)
            .args([mode.clone(), input.display().to_string(), output.display().to_string()])
            .master("local[*]")
            .conf("spark.sql.session.timeZone", "Asia/Seoul")
            .conf("spark.ui.enabled", "false")
            .conf("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
            .parallelism(Granted { units: 2, hint: Some(HINT.to_owned()) })
            .submit(&submit))
    });
    Job::new("nightly").step(step)
}

async fn told(yard: &Yard) -> Value {
    // A Java machine takes its time on a busy host.
    let looking = async {
        loop {
            match std::fs::read_to_string(yard.path("out.told.json")) {
                Ok(text) if text.ends_with('\n') => return serde_json::from_str(&text).unwrap(),
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(120), looking).await.expect("the application starts")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_reads_and_writes_with_what_it_was_granted() {
    let Some(home) = home() else { return };
    let yard = Yard::new().await;
    std::fs::write(yard.path("in.csv"), "region,amount\nseoul,3\nbusan,5\nseoul,4\n").unwrap();

    let run = yard.stand.bench.run(&job(&home, &yard, "keep"), &JobParameters::new()).await.unwrap();

    assert!(run.is_completed(), "{run:?}");
    assert_eq!(run.context("extract").unwrap().get_text("batch.stepType"), Some("spark"));
    let written = std::fs::read_dir(yard.path("out")).unwrap().map(|entry| entry.unwrap().path());
    let file = written.into_iter().find(|path| path.extension().is_some_and(|end| end == "csv")).unwrap();
    assert_eq!(std::fs::read_to_string(file).unwrap(), "region,amount\nbusan,5\nseoul,4\n");
    let told = told(&yard).await;
    assert_eq!(told["master"], "local[2]");
    assert_eq!((&told["parallelism"], &told["hint"]), (&"2".into(), &HINT.into()));
    assert_eq!(told["zone"], "Asia/Seoul");
    let environment = &told["environment"];
    assert_eq!(environment["TIDEMILL_PARALLELISM"], "2");
    assert_eq!(environment["TIDEMILL_HINT"], HINT);
    assert_eq!(environment["TIDEMILL_STEP"], "extract");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_that_fails_tells_its_exception() {
    let Some(home) = home() else { return };
    let yard = Yard::new().await;

    let run = yard.stand.bench.run(&job(&home, &yard, "fail"), &JobParameters::new()).await.unwrap();

    assert_eq!((run.end.status, run.end.code), (BatchStatus::Failed, Some(Code::CommandFailed)));
    let reason = &run.step("extract").unwrap().exit.description;
    assert!(reason.contains("ended with exit code 1"), "{reason}");
    assert!(reason.contains("ValueError: planted: the region is not known"), "{reason}");
    assert!(!reason.contains(" INFO "), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_the_application_and_its_java_machine() {
    let Some(home) = home() else { return };
    let yard = Yard::new().await;
    let launcher = yard.stand.bench.launcher(&job(&home, &yard, "wait")).unwrap();
    let running = launcher.launch("nightly", &JobParameters::new(), &Actor::system()).await.unwrap();
    let told = told(&yard).await;
    let number = |name: &str| i32::try_from(told[name].as_i64().unwrap()).unwrap();
    let (python, java) = (number("pid"), number("jvm"));
    assert!(is_running(python) && is_running(java));

    launcher.stop_all(Duration::from_secs(60)).await;

    assert_eq!(running.ended().await.unwrap().status, BatchStatus::Stopped);
    gone(python).await;
    gone(java).await;
}

#[tokio::test]
async fn where_there_is_no_spark_the_step_says_what_to_do() {
    let yard = Yard::new().await;
    let job = job(Path::new("/nowhere"), &yard, "keep");

    let run = yard.stand.bench.run(&job, &JobParameters::new()).await.unwrap();

    let reason = &run.step("extract").unwrap().exit.description;
    assert!(reason.contains("there is no spark-submit at /nowhere/bin/spark-submit"), "{reason}");
}
