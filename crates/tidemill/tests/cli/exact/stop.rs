//! A job is asked to stop, by an operator elsewhere or by a signal, and goes on another time.

use super::{Ground, PATIENCE, arguments};
use tidemill_domain::job::BatchStatus;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::{Guarded, Signal};

tidemill_store::on_both![
    a_job_stops_at_the_end_of_its_chunk_when_an_operator_elsewhere_says_so,
    a_job_stops_at_the_end_of_its_chunk_at_sigterm,
    a_second_signal_stops_a_job_in_the_middle_of_its_chunk_which_is_rolled_back,
];

const RUN: &str = "run=night";
/// A chunk of this run takes four seconds.
const SLOW: &str = "pause=400,long,false";
const FAST: &str = "pause=0,long,false";

/// A chunk of this run takes 20 seconds.
const ENDLESS: &str = "pause=2000,long,false";

/// The job has stopped between two chunks, and is exact when it has been run again.
async fn assert_stopped(ground: &Ground, mut child: Guarded) {
    let ended = child.wait_deadline(PATIENCE).expect("it stops by itself");
    assert_eq!(ended.code(), Some(11), "{ended:?}");
    let (detail, steps) = ground.executions("sweep", "night").await.pop().unwrap();
    assert_eq!(detail.execution.status, BatchStatus::Stopped);
    assert_eq!(steps[0].status, BatchStatus::Stopped);
    let rows = ground.rows("night").await.len();
    assert!(rows.is_multiple_of(10) && rows < 50, "{rows} rows");
    ground.program.run(&arguments("sweep", RUN, FAST)).succeeds();
    ground.assert_exact("sweep", "night").await;
}

async fn a_job_stops_at_the_end_of_its_chunk_when_an_operator_elsewhere_says_so(database: Scratch) {
    let ground = Ground::new(database).await;
    let child = ground.program.start("run.log", &arguments("sweep", RUN, SLOW));
    let id = ground.at_work("sweep", "night").await;

    let asked = ground.program.run(&["job", "stop", &id.to_string(), "--reason", "the report can wait"]);

    asked.succeeds();
    assert_stopped(&ground, child).await;
    let (detail, _) = ground.executions("sweep", "night").await.remove(0);
    assert_eq!(detail.stop.unwrap().reason.as_deref(), Some("the report can wait"));
}

async fn a_job_stops_at_the_end_of_its_chunk_at_sigterm(database: Scratch) {
    let ground = Ground::new(database).await;
    let mut child = ground.program.start("run.log", &arguments("sweep", RUN, SLOW));
    ground.at_work("sweep", "night").await;

    child.signal(Signal::TERM).unwrap();

    assert_stopped(&ground, child).await;
}

async fn a_second_signal_stops_a_job_in_the_middle_of_its_chunk_which_is_rolled_back(database: Scratch) {
    let ground = Ground::new(database).await;
    let mut told = arguments("sweep", RUN, ENDLESS).to_vec();
    told.push("-vv");
    let mut child = ground.program.start("run.log", &told);
    let log = ground.program.stage.path("run.log");
    let says = async |text: &str| std::fs::read_to_string(&log).unwrap().contains(text).then_some(());
    ground.until(async || says("chunk 1 of step").await).await;

    child.signal(Signal::TERM).unwrap();
    ground.until(async || says("once more").await).await;
    child.signal(Signal::TERM).unwrap();

    assert_stopped(&ground, child).await;
    let (_, steps) = ground.executions("sweep", "night").await.remove(0);
    assert_eq!((steps[0].counters.write, steps[0].counters.rollback), (0, 1), "{steps:?}");
}
