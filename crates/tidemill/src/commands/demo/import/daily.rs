//! Imports that go on for as long as somebody looks: each has a file with a bad line, fails there, and goes on when the line
//! is mended.

use super::Payment;
use crate::context::Context;
use crate::report::Failure;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::code::Code;
use tidemill_domain::item::{ItemError, Value};
use tidemill_domain::job::{BatchStatus, JobParameters};
use tidemill_domain::process::Identity;
use tidemill_engine::item::sql::SqlWriter;
use tidemill_engine::item::{AsyncProcessor, CsvReader};
use tidemill_engine::job::{Job, JobRegistry, Launcher, Step};
use tidemill_engine::{Process, ProcessOptions, SystemClock};
use tidemill_store::Store;

const ROWS: u32 = 600;
const BAD_ROW: u32 = 370;
const CHUNK: usize = 50;

/// What each row takes, so that progress can be seen.
const EACH: Duration = Duration::from_millis(10);

/// How long the failure stands before somebody mends the file.
const MENDING: Duration = Duration::from_secs(4);

/// The ids of a round are apart from those of all others, and from those of the first import.
const IDS_OF_A_ROUND: u32 = 1_000_000;

/// The amount in the row that is bad at first.
#[derive(Clone, Copy)]
enum Amount {
    Bad,
    Mended,
}

pub(in crate::commands::demo) struct Imports {
    process: Process,
    launcher: Launcher,
    folder: PathBuf,
}

impl Imports {
    pub(in crate::commands::demo) async fn start(
        context: &Context,
        store: &Store,
        folder: &Path,
    ) -> Result<Self, Failure> {
        let clock = Arc::new(SystemClock::new());
        let identity = Identity { name: "importer".to_owned(), ..context.identity() };
        let options = ProcessOptions { identity, ..context.process_options() };
        let process = Process::start(store.clone(), clock.clone(), options).await?;
        let jobs = JobRegistry::new([job(folder.to_owned())])?;
        let launcher = Launcher::new(store.clone(), process.clone(), clock, jobs);
        Ok(Self { process, launcher, folder: folder.to_owned() })
    }

    /// One file: it fails, is mended, and goes on.
    pub(in crate::commands::demo) async fn play(&self, round: u32) -> Result<(), Failure> {
        let name = format!("payments-{round}.csv");
        let failed =
            |error: std::io::Error| Failure::unexpected("the file of a round was not written", &error);
        let path = self.folder.join(&name);
        std::fs::write(&path, rows(round, Amount::Bad)).map_err(failed)?;
        self.launch(&name, BatchStatus::Failed).await?;
        tokio::time::sleep(MENDING).await;
        std::fs::write(&path, rows(round, Amount::Mended)).map_err(failed)?;
        self.launch(&name, BatchStatus::Completed).await?;
        std::fs::remove_file(&path).map_err(failed)
    }

    async fn launch(&self, name: &str, expected: BatchStatus) -> Result<(), Failure> {
        let parameters = JobParameters::new().with("file", name);
        let running = self.launcher.launch("import", &parameters, &Actor::system()).await?;
        let ended = running.ended().await?.status;
        if ended == expected {
            return Ok(());
        }
        let what = format!("the import of {name} ended as {ended:?}, and not as {expected:?}");
        Err(Failure::new(Code::Unexpected, what, "run the demo again with -vv and report what you see"))
    }

    pub(in crate::commands::demo) async fn end(self) -> Result<(), Failure> {
        Ok(self.process.stop().await?)
    }
}

fn rows(round: u32, amount: Amount) -> String {
    let mut text = "id,account,cents\n".to_owned();
    for row in 1..=ROWS {
        let id = u64::from(round) * u64::from(IDS_OF_A_ROUND) + u64::from(row);
        let cents = match amount {
            Amount::Bad if row == BAD_ROW => "twelve".to_owned(),
            Amount::Bad | Amount::Mended => (row * 31 % 100_000).to_string(),
        };
        let _infallible = writeln!(text, "{id},KR-{:06},{cents}", row * 7919 % 1_000_000);
    }
    text
}

fn job(folder: PathBuf) -> Job {
    let step = Step::chunk("load", CHUNK)
        .reader_with(move |scope| {
            Ok(CsvReader::<Payment>::new("payments", folder.join(scope.text("file")?)).count_total())
        })
        .process(AsyncProcessor(|payment: &Payment| {
            let row = [Value::from(payment.id), payment.account.as_str().into(), payment.cents.into()];
            async move {
                tokio::time::sleep(EACH).await;
                Ok::<_, ItemError>(Some(row))
            }
        }))
        .writer_with(|scope| {
            let values = |row: &[Value; 3]| row.to_vec();
            Ok(SqlWriter::new(scope.store(), "demo_payment", ["id", "account", "cents"], values))
        });
    Job::new("import").step(step.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mended_is_one_line_and_nothing_before_it() {
        let (bad, mended) = (rows(3, Amount::Bad), rows(3, Amount::Mended));

        let differing: Vec<usize> = bad
            .lines()
            .zip(mended.lines())
            .enumerate()
            .filter(|(_, (a, b))| a != b)
            .map(|(n, _)| n)
            .collect();
        assert_eq!(differing, [BAD_ROW as usize]);
        assert!(rows(4, Amount::Bad).lines().skip(1).all(|line| !mended.contains(line)));
    }
}
