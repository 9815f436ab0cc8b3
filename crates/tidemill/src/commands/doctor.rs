//! `tidemill doctor`: one line per check, with a fix when something is wrong.

use crate::commands::prelude::*;
use crate::commands::relay::sink;
use crate::commands::render::worker::WorkerSetup;
use crate::config::Output;
use crate::declared::{JobFolder, Parameters};
use crate::report::printable;
use Verdict::{Good, Warning};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::render::{LocalPath, Trouble};
use tidemill_domain::time::Clock;
use tidemill_engine::render::Backends;
use tidemill_engine::system::free_bytes;
use tidemill_engine::{SystemClock, SystemIds};
use tidemill_kafka::Cluster;
use tidemill_store::Store;
use tidemill_store::migration::MigrationState;
use tidemill_store::url::Dialect;

/// The name of a check and its result. A failure fails the whole command.
pub(super) type Check = (&'static str, Result<Verdict>);

pub(super) enum Verdict {
    Good(String),
    /// With a fix.
    Warning(String, String),
}

#[crate::boxed(?Send)]
pub(super) async fn run(context: &Context) -> Result<Exit> {
    let mut checks = vec![("configuration", Ok(configuration(context)))];
    checks.extend(job_files(context).transpose().map(|seen| ("job files", seen)));
    checks.extend(database(context).await);
    checks.extend(kafka(context).await.transpose().map(|seen| ("Kafka", seen)));
    checks.extend(renders(context).await.unwrap_or_else(|failure| vec![("renders", Err(failure))]));
    print(&checks, context.output())?;
    Ok(if checks.iter().all(|(_, seen)| seen.is_ok()) { Exit::Ok } else { Exit::Failure })
}

fn configuration(context: &Context) -> Verdict {
    Good(match context.loaded.files.as_slice() {
        [] => "no file; defaults and environment only".to_owned(),
        files => files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
    })
}

/// None without a folder of job files.
fn job_files(context: &Context) -> Result<Option<Verdict>> {
    let own = context.definitions.clone();
    let Some(folder) = JobFolder::of(own, &context.loaded, Parameters::Stored)? else { return Ok(None) };
    let definitions = folder.load()?;
    let (count, path) = (definitions.jobs.names().len(), folder.path.display());
    match definitions.warnings().collect::<Vec<_>>().as_slice() {
        [] => Ok(Some(Good(format!("{count} jobs in {path}")))),
        warnings => {
            let fix = format!("`tidemill job check {path}` lists all mistakes");
            Err(Failure::new(Code::BadJobFile, warnings.join("; "), fix))
        }
    }
}

/// In a table each check has a line, with the fix below it.
pub(super) fn print(checks: &[Check], output: Output) -> Result<Exit> {
    let mut listing = Listing::new("tidemill.check/v1", &["check", "status", "detail", "fix"], "No checks.");
    let mut text = String::new();
    for (name, seen) in checks {
        let (mark, status, detail, fix) = match seen {
            Ok(Good(detail)) => ("✓", "ok", detail.clone(), None),
            Ok(Warning(detail, fix)) => ("!", "warning", detail.clone(), Some(fix.as_str())),
            Err(failure) => ("✗", "failed", failure.summary(), Some(failure.fix.as_str())),
        };
        let _infallible = writeln!(text, "{mark} {name:<14} {}", printable(&detail));
        if let Some(fix) = fix {
            let _infallible = writeln!(text, "  {:<14} fix: {}", "", printable(fix));
        }
        listing.push(vec![json!(name), json!(status), json!(detail), json!(fix)]);
    }
    match output {
        Output::Table => write_stdout(text),
        other => listing.print(other),
    }
}

/// A larger difference makes logs hard to read. Leases use the clock of the database.
const SKEW_MAX: Duration = Duration::from_secs(1);

/// With less free space, SQLite soon cannot write.
const DATABASE_FREE_MIN: u64 = 256 * 1024 * 1024;

/// Connection, schema, write access, clocks, wake-ups and disk space.
async fn database(context: &Context) -> Vec<Check> {
    let mut checks = Vec::new();
    match context.bare_store().await {
        Ok(store) => {
            checks.push(("database", connection(&store).await));
            let schema = schema(&store).await;
            let is_usable = matches!(schema, Ok(Good(_)));
            checks.push(("schema", schema));
            if is_usable {
                checks.push(("writing", writing(&store, context).await));
            }
            checks.push(("clocks", clocks(&store).await));
            checks.push(("wake-ups", Ok(wakeups(&store))));
        }
        Err(failure) => checks.push(("database", Err(failure))),
    }
    // A full disk may be why the database cannot be opened.
    checks.extend(disk(context).map(|verdict| ("disk", Ok(verdict))));
    checks
}

async fn connection(store: &Store) -> Result<Verdict> {
    let clock = SystemClock::new();
    let before = clock.monotonic();
    store.read().await?.now().await?;
    let took = clock.monotonic().since(before);
    Ok(Good(format!("{} answers in {:.1} ms", store.place(), took.as_secs_f64() * 1000.0)))
}

async fn schema(store: &Store) -> Result<Verdict> {
    let status = store.migration_status().await?;
    let count = |state| status.iter().filter(|line| line.state == state).count();
    let pending = count(MigrationState::Pending);
    if count(MigrationState::Changed) + count(MigrationState::NewerBreaking) > 0 {
        let what = "the schema was made by another version of Tidemill";
        return Err(Failure::new(Code::SchemaAhead, what, "see `tidemill db status`"));
    }
    if pending == 0 {
        return Ok(Good(format!("migrations applied: {}", status.len())));
    }
    let missing = format!("migrations missing: {pending}");
    if store.dialect() == Dialect::Postgres {
        return Err(Failure::new(Code::SchemaBehind, missing, "run `tidemill db migrate`"));
    }
    let detail = format!("{missing}; the next command applies them");
    Ok(Warning(detail, "run `tidemill db migrate` to apply them now".to_owned()))
}

/// Writes a row and rolls back.
async fn writing(store: &Store, context: &Context) -> Result<Verdict> {
    let mut tx = store.begin().await?;
    tx.processes().register(SystemIds.process(), &context.identity(), Duration::from_secs(1)).await?;
    tx.rollback().await?;
    Ok(Good("this user can write".to_owned()))
}

async fn clocks(store: &Store) -> Result<Verdict> {
    let clock = SystemClock::new();
    let before = clock.now();
    let database = store.read().await?.now().await?;
    let after = clock.now();
    // The database read its clock between our two readings.
    let skew = before.since(database).max(database.since(after));
    if skew <= SKEW_MAX {
        return Ok(Good(format!("differ by at most {} ms", skew.as_millis().max(1))));
    }
    let detail = format!("this host's clock differs from the database's by {:.1} s", skew.as_secs_f64());
    Ok(Warning(detail, "synchronise the clocks; leases are safe, but times in logs differ".to_owned()))
}

fn wakeups(store: &Store) -> Verdict {
    match (store.dialect(), store.is_behind_transaction_pooler()) {
        (Dialect::Sqlite, _) => Good("immediate within a process, by polling between processes".to_owned()),
        (Dialect::Postgres, false) => Good("by notification".to_owned()),
        (Dialect::Postgres, true) => {
            let detail = "by polling only, because of the transaction pooler";
            Warning(detail.to_owned(), "connect directly or through a session pooler".to_owned())
        }
    }
}

/// Free space beside an SQLite database. The disk of a database server is not visible from here.
fn disk(context: &Context) -> Option<Verdict> {
    let url = context.database_url().ok()?;
    let path = url.file()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let free = free_bytes(folder)?;
    let detail = format!("{} MiB free in {}", free / (1024 * 1024), folder.display());
    if free >= DATABASE_FREE_MIN {
        return Some(Good(detail));
    }
    Some(Warning(detail, "free some space, or move the database and change database.url".to_owned()))
}

/// Timeout for brokers, and for the free space of the NAS.
const WITHIN: Duration = Duration::from_secs(5);

/// With less free space, the next renders may not fit.
const NAS_FREE_MIN: u64 = 1024 * 1024 * 1024;

/// None unless a Kafka sink is configured.
async fn kafka(context: &Context) -> Result<Option<Verdict>> {
    let settings = context.settings();
    let Some(servers) = settings.outbox.sink.as_deref().and_then(sink::kafka) else { return Ok(None) };
    let options = sink::kafka_options(settings, servers)?;
    let Cluster { brokers, topics } = Cluster::look(&options, WITHIN).await.map_err(|failure| {
        let code = failure.code().unwrap_or(Code::Unexpected);
        Failure::new(code, format!("{failure} ({code})"), failure.fix())
    })?;
    let servers = options.bootstrap_servers;
    Ok(Some(Good(format!("{servers} answers: {brokers} brokers, {topics} visible topics"))))
}

/// Empty unless a render worker is configured.
pub(super) async fn renders(context: &Context) -> Result<Vec<Check>> {
    let Some(setup) = WorkerSetup::of(context, Arc::new(SystemClock::new()))? else { return Ok(Vec::new()) };
    let Backends { farm, storage, inspector } = &setup.backends;
    let answers = |()| Good(format!("{} answers and accepts the secret", farm.name()));
    let nas = match storage.check().await {
        Ok(()) => Ok(free_space(&setup.setup.output).await),
        Err(trouble) => Err(problem(trouble)),
    };
    let works = |()| Good("ffprobe and ffmpeg work".to_owned());
    Ok(vec![
        ("nexrender", farm.check().await.map(answers).map_err(problem)),
        ("NAS", nas),
        ("ffprobe", inspector.check().await.map(works).map_err(problem)),
    ])
}

/// The problem, its code and the first thing to try.
fn problem(trouble: Trouble) -> Failure {
    let code = trouble.code;
    let first = match code {
        Code::NexrenderDown => "start nexrender, or correct render.url; ",
        Code::NexrenderSecretRefused => "set render.secret to the secret of nexrender; ",
        Code::NotNexrender => "correct render.url, which is the address of another program; ",
        Code::NasNotMounted => "mount the NAS, or correct render.mount and the folders below it; ",
        Code::NasRefused | Code::NasFailed => "let this user write there and free some space; ",
        Code::RenderToolMissing => "install ffmpeg, or set render.ffprobe and render.ffmpeg; ",
        _ => "",
    };
    let fix = format!("{first}see `tidemill explain {code}`");
    Failure::new(code, format!("{} ({code})", trouble.message), fix)
}

/// Free space where renders are published. A NAS that hangs makes this a warning.
async fn free_space(folder: &LocalPath) -> Verdict {
    let name = folder.to_string();
    let path = name.clone();
    let looking = tokio::task::spawn_blocking(move || free_bytes(path.as_ref()));
    let Ok(Ok(Some(free))) = tokio::time::timeout(WITHIN, looking).await else {
        let detail = format!("{name} is writable, but its free space is unknown");
        if cfg!(windows) {
            return Good(detail);
        }
        return Warning(detail, format!("check it with `df -h {name}`"));
    };
    let detail = format!("{name} is writable, {} MiB free", free / (1024 * 1024));
    if free >= NAS_FREE_MIN {
        return Good(detail);
    }
    Warning(detail, "free some space: a render that does not fit fails".to_owned())
}
