//! Jobs for the crash tests. The tests kill this program at every crash point, run it again, and look for missing and
//! duplicate rows.
//!
//! All jobs write the numbers from 1 into the table `swept (run, id)`. The parameter `run` is the name of the run. The
//! parameter `pause` is the time in milliseconds that the processor takes for one number. The environment variable
//! `SWEEP_THREADS` sets the number of threads of a step. With `SWEEP_LISTENS` it has a chunk listener, so that a scan
//! commits each row. `SWEEP_CRON` adds a schedule, so that a server runs `sweep`.

use std::process::ExitCode;
use std::time::Duration;
use tidemill::item::CompositeWriter;
use tidemill::job::ChunkStep;
use tidemill::job::listener::ChunkListener;
use tidemill::prelude::*;

const ROWS: i64 = 50;
const CHUNK: usize = 10;

const INSERT: &str = "insert into swept (run, id) values ($1, $2)";

/// Waits, and then passes each number on.
#[derive(Clone)]
struct Slow(Duration);

impl ItemProcessor<i64> for Slow {
    type Output = i64;

    async fn process(&mut self, number: &i64) -> Result<Option<i64>, ItemError> {
        tokio::time::sleep(self.0).await;
        Ok(Some(*number))
    }
}

/// The transaction in which the rows are written.
#[derive(Clone, Copy)]
enum In {
    /// The transaction of the chunk, so that rows and position commit together.
    ChunksOwn,
    /// A separate transaction that commits at once. This is a deliberate bug, which the tests must find.
    Another,
}

struct Swept {
    run: String,
    store: Store,
    transaction: In,
}

impl ItemStream for Swept {}

impl ItemWriter<i64> for Swept {
    async fn write(&mut self, numbers: &[i64], chunk: &mut ChunkScope) -> Result<(), ItemError> {
        match self.transaction {
            In::ChunksOwn => insert(chunk.tx().await?, &self.run, numbers).await?,
            In::Another => {
                let mut tx = self.store.begin().await?;
                insert(&mut tx, &self.run, numbers).await?;
                tx.commit().await?;
            }
        }
        Ok(())
    }

    fn is_concurrent(&self) -> bool {
        matches!(self.transaction, In::ChunksOwn)
    }

    fn delivery(&self) -> Delivery {
        match self.transaction {
            In::ChunksOwn => Delivery::ExactlyOnce,
            In::Another => Delivery::AtLeastOnce,
        }
    }
}

/// Inserts each number with a separate statement.
async fn insert(tx: &mut Tx, run: &str, numbers: &[i64]) -> Result<(), ItemError> {
    for number in numbers {
        tx.execute(INSERT, (run, *number)).await?;
    }
    Ok(())
}

fn threads() -> usize {
    std::env::var("SWEEP_THREADS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Hears of each commit, and does nothing.
struct Commits;

impl ChunkListener for Commits {}

fn listening<R, P, W>(step: ChunkStep<R, P, W>) -> Step
where
    R: ItemReader,
    P: ItemProcessor<R::Item>,
    W: ItemWriter<P::Output>,
{
    match std::env::var_os("SWEEP_LISTENS") {
        Some(_) => step.chunk_listener(Commits).build(),
        None => step.build(),
    }
}

/// The step of most jobs. It skips rows that the table refuses, and then writes the chunk row by row.
fn numbers(transaction: In) -> Step {
    let step = Step::chunk("numbers", CHUNK)
        .reader(ItemsReader::new("numbers", 1..=ROWS))
        .process_with(|scope| {
            let pause = scope.text("pause").unwrap_or_else(|_| "0".into());
            Ok(Slow(Duration::from_millis(pause.parse()?)))
        })
        .writer_with(move |scope| {
            Ok(Swept { run: scope.text("run")?, store: scope.store().clone(), transaction })
        })
        .skip([ErrorKind::CONSTRAINT], 10)
        .threads(threads());
    listening(step)
}

/// The same with the writer for tables, whose rows are committed together with the chunk in one statement on PostgreSQL.
fn numbers_of_table() -> Step {
    let step = Step::chunk("numbers", CHUNK)
        .reader(ItemsReader::new("numbers", 1..=ROWS))
        .writer_with(|scope| {
            let run = scope.text("run")?;
            let values = move |number: &i64| vec![run.clone().into(), (*number).into()];
            Ok(SqlWriter::new(scope.store(), "swept", ["run", "id"], values))
        })
        .skip([ErrorKind::CONSTRAINT], 10)
        .threads(threads());
    listening(step)
}

/// Writes the same numbers into a file and the table, and the numbers that the table refuses into another file. The
/// file is written first, so the step has to remove refused numbers from it.
fn numbers_and_files() -> Step {
    let step = Step::chunk("numbers", CHUNK)
        .reader(ItemsReader::new("numbers", 1..=ROWS))
        .writer_with(|scope| {
            let (run, store) = (scope.text("run")?, scope.store().clone());
            Ok(CompositeWriter::new()
                .and(TextWriter::new("written", "written.txt", i64::to_string))
                .and(Swept { run, store, transaction: In::ChunksOwn }))
        })
        .skip([ErrorKind::CONSTRAINT], 10)
        .rejects(Rejects::file("rejects.jsonl"))
        .threads(threads());
    listening(step)
}

fn main() -> ExitCode {
    let app = match std::env::var("SWEEP_CRON") {
        Ok(cron) => App::new().schedule(
            Schedule::new("often", "sweep").cron(cron).overlap(Overlap::Allow).parameter("run", "${tick}"),
        ),
        Err(_) => App::new(),
    };
    app.job(Job::new("sweep").step(numbers(In::ChunksOwn)))
        .job(Job::new("leaky").step(numbers(In::Another)))
        .job(Job::new("table").step(numbers_of_table()))
        .job(Job::new("files").step(numbers_and_files()))
        .job(Job::new("phoenix").step(numbers(In::ChunksOwn)).on_crash(OnCrash::Restart { limit: 3 }))
        .run()
}
