//! Jobs: launching, running, stopping, losing and listing them. One file per part of the story; this one has what
//! they share.

use crate::{Bench, TTL};
use sqlx::{AssertSqlSafe, Connection};
use tidemill_domain::audit::{Actor, Role};
use tidemill_domain::job::launch::LaunchRefusal;
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::step::StepRules;
use tidemill_domain::job::{
    BatchStatus, Counters, ExecutionContext, ExecutionId, ExitStatus, JobParameters, StepExecutionId,
};
use tidemill_domain::process::ProcessId;
use tidemill_store::job::{
    ChunkPlace, ChunkSave, ChunkSaved, EndRecorded, ExecutionDetail, LaunchRequest, Launched, Recovered,
    StepEnd, StepRequest, StepStart,
};

mod attention;
mod chunk;
mod history;
mod launch;
mod list;
mod notify;
mod operate;
mod orphan;
mod partition;
mod plan;
mod previous_run;
mod purge;
mod reject;
mod spring;
mod staged;
mod step;
mod track;
mod watch;

pub(crate) fn ann() -> Actor {
    Actor { name: "ann".into(), role: Role::Operator, request_id: None }
}

pub(crate) fn day(day: &str) -> JobParameters {
    JobParameters::new().with("day", day)
}

/// A job that may be restarted and that asks nothing of its parameters.
pub(crate) fn request<'a>(
    parameters: &'a JobParameters,
    by: ProcessId,
    actor: &'a Actor,
) -> LaunchRequest<'a> {
    LaunchRequest {
        job: "load",
        parameters,
        parameters_valid: Ok(()),
        is_restartable: true,
        on_crash: OnCrash::Fail,
        crash_restarts: 0,
        fingerprint: None,
        notify: &[],
        accepts_change: false,
        by,
        actor,
    }
}

async fn try_launch(bench: &Bench, request: &LaunchRequest<'_>) -> Result<Launched, LaunchRefusal> {
    let mut tx = bench.begin().await;
    let answer = tx.jobs().launch(request).await.unwrap();
    tx.commit().await.unwrap();
    answer
}

/// Launches and begins.
pub(crate) async fn launch(bench: &Bench, parameters: &JobParameters, by: ProcessId) -> Launched {
    let launched = try_launch(bench, &request(parameters, by, &ann())).await.unwrap();
    let mut tx = bench.begin().await;
    assert!(
        tx.jobs().begin_execution(launched.execution, &launched.lease, launched.granted.fence).await.unwrap()
    );
    tx.commit().await.unwrap();
    launched
}

pub(crate) async fn end(bench: &Bench, launched: &Launched, status: BatchStatus) -> bool {
    let mut tx = bench.begin().await;
    let (lease, fence) = (&launched.lease, launched.granted.fence);
    let exit = ExitStatus::new(status.as_str());
    let ended = tx.jobs().end_execution(launched.execution, lease, fence, status, &exit).await.unwrap();
    tx.commit().await.unwrap();
    ended == EndRecorded::Done
}

fn step_request<'a>(launched: &'a Launched, step: &'a str, seed: &'a ExecutionContext) -> StepRequest<'a> {
    StepRequest {
        execution: launched.execution,
        instance: launched.instance,
        lease: &launched.lease,
        fence: launched.granted.fence,
        step,
        rules: StepRules::default(),
        seed,
    }
}

async fn start(bench: &Bench, request: &StepRequest<'_>) -> StepStart {
    let mut tx = bench.begin().await;
    let start = tx.jobs().start_step(request).await.unwrap();
    tx.commit().await.unwrap();
    start
}

/// Starts a step that has to run.
async fn run_step(bench: &Bench, launched: &Launched, step: &str) -> StepExecutionId {
    match start(bench, &step_request(launched, step, &ExecutionContext::new())).await {
        StepStart::Run { id, .. } => id,
        other => panic!("{other:?}"),
    }
}

async fn save(
    bench: &Bench,
    launched: &Launched,
    step: StepExecutionId,
    counters: &Counters,
    context: Option<&str>,
) -> ChunkSaved {
    let mut tx = bench.begin().await;
    let saved = tx
        .jobs()
        .save_chunk(
            &ChunkSave {
                step,
                execution: launched.execution,
                lease: &launched.lease,
                fence: launched.granted.fence,
                counters,
                context,
            },
            &mut ChunkPlace::default(),
        )
        .await
        .unwrap();
    tx.commit().await.unwrap();
    saved
}

async fn end_step(
    bench: &Bench,
    launched: &Launched,
    id: StepExecutionId,
    status: BatchStatus,
    exit: &ExitStatus,
) -> bool {
    let mut tx = bench.begin().await;
    let (lease, fence) = (&launched.lease, launched.granted.fence);
    let (execution, counters) = (launched.execution, &Counters::default());
    let end = StepEnd { id, execution, lease, fence, status, exit, counters };
    let ended = tx.jobs().end_step(&end).await.unwrap();
    tx.commit().await.unwrap();
    ended
}

async fn detail(bench: &Bench, id: ExecutionId) -> ExecutionDetail {
    bench.begin().await.jobs().execution(id).await.unwrap().unwrap()
}

async fn status(bench: &Bench, id: ExecutionId) -> BatchStatus {
    detail(bench, id).await.execution.status
}

/// Lets all processes fall silent, and does what the reaper does.
async fn lose_all(bench: &Bench) -> Vec<Recovered> {
    bench.advance(TTL);
    reap(bench).await
}

async fn reap(bench: &Bench) -> Vec<Recovered> {
    let mut tx = bench.begin().await;
    tx.processes().expire(100).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = bench.begin().await;
    tx.leases().expire(100).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = bench.begin().await;
    let recovered = tx.jobs().recover_orphans(100).await.unwrap();
    tx.commit().await.unwrap();
    recovered
}

/// What somebody sees who asks the database directly: one column as text, one line per row.
async fn look(bench: &Bench, sql: &str) -> Vec<Option<String>> {
    let (url, query) = (bench.scratch.url(), AssertSqlSafe(sql.to_owned()));
    if url.starts_with("sqlite") {
        let mut connection = sqlx::SqliteConnection::connect(url).await.unwrap();
        return sqlx::query_scalar(query).fetch_all(&mut connection).await.unwrap();
    }
    let mut connection = sqlx::PgConnection::connect(url).await.unwrap();
    sqlx::query_scalar(query).fetch_all(&mut connection).await.unwrap()
}

async fn run_sql(bench: &Bench, sql: &str) {
    let mut tx = bench.begin().await;
    tx.execute_for_test(sql).await.unwrap();
    tx.commit().await.unwrap();
}
