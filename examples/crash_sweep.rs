//! Jobs that are made to be killed: the crash tests let this program die at every point there is, run it again, and
//! look for rows that are missing or there twice.
//!
//! All jobs write the numbers from 1 into the table `swept (run, id)`, under the name of the run, which is a
//! parameter. `pause` says how long the processor takes for one of them. In the environment, `SWEEP_THREADS` says how many
//! threads a step has, and `SWEEP_CRON` lets a server run one by itself.

use std::process::ExitCode;
use std::time::Duration;
use tidemill::item::CompositeWriter;
use tidemill::prelude::*;

const ROWS: i64 = 50;
const CHUNK: usize = 10;

const INSERT: &str = "insert into swept (run, id) values ($1, $2)";

/// Takes its time, and passes on what it gets.
#[derive(Clone)]
struct Slow(Duration);

impl ItemProcessor<i64> for Slow {
    type Output = i64;

    async fn process(&mut self, number: &i64) -> Result<Option<i64>, ItemError> {
        tokio::time::sleep(self.0).await;
        Ok(Some(*number))
    }
}

/// Which transaction the rows are written in.
#[derive(Clone, Copy)]
enum In {
    /// That of the chunk, so that both commit or neither does.
    ChunksOwn,
    /// One that commits at once. That is the mistake that the tests have to find.
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

/// Each number by a statement of the author's own.
async fn insert(tx: &mut Tx, run: &str, numbers: &[i64]) -> Result<(), ItemError> {
    for number in numbers {
        tx.execute(INSERT, (run, *number)).await?;
    }
    Ok(())
}

fn threads() -> usize {
    std::env::var("SWEEP_THREADS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// The step that most of them have. Rows that the table refuses are skipped, which makes the step write one by one.
fn numbers(transaction: In) -> Step {
    Step::chunk("numbers", CHUNK)
        .reader(ItemsReader::new("numbers", 1..=ROWS))
        .process_with(|scope| {
            let pause = scope.text("pause").unwrap_or_else(|_| "0".into());
            Ok(Slow(Duration::from_millis(pause.parse()?)))
        })
        .writer_with(move |scope| {
            Ok(Swept { run: scope.text("run")?, store: scope.store().clone(), transaction })
        })
        .skip([ErrorKind::CONSTRAINT], 10)
        .threads(threads())
        .build()
}

/// The same numbers into a file and the table at once, and those that the table refuses into another file. The file
/// comes first, so that it has to forget what the table refuses.
fn numbers_and_files() -> Step {
    Step::chunk("numbers", CHUNK)
        .reader(ItemsReader::new("numbers", 1..=ROWS))
        .writer_with(|scope| {
            let (run, store) = (scope.text("run")?, scope.store().clone());
            Ok(CompositeWriter::new()
                .and(TextWriter::new("written", "written.txt", i64::to_string))
                .and(Swept { run, store, transaction: In::ChunksOwn }))
        })
        .skip([ErrorKind::CONSTRAINT], 10)
        .rejects(Rejects::file("rejects.jsonl"))
        .threads(threads())
        .build()
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
        .job(Job::new("files").step(numbers_and_files()))
        .job(Job::new("phoenix").step(numbers(In::ChunksOwn)).on_crash(OnCrash::Restart { limit: 3 }))
        .run()
}
