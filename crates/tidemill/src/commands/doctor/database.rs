//! The database: whether it answers, has our schema, can be written, agrees about the time, and has room.

use super::{Check, Verdict};
use crate::context::Context;
use std::path::Path;
use std::time::Duration;
use tidemill_domain::time::{Clock, Timestamp};
use tidemill_engine::{SystemClock, SystemIds};
use tidemill_store::migration::MigrationState;
use tidemill_store::url::Dialect;
use tidemill_store::{Store, StoreError};

/// A host whose clock differs by more makes logs hard to read; leases are not decided by it.
const SKEW_MAX: Duration = Duration::from_secs(1);

/// Below this the embedded database soon cannot write.
const FREE_BYTES_MIN: u64 = 256 * 1024 * 1024;

pub(super) async fn look(context: &Context) -> Vec<Check> {
    let mut checks = Vec::new();
    match context.bare_store().await {
        Ok(store) => {
            checks.push(Check::of("database", connection(&store).await));
            let schema = schema(&store).await;
            let is_usable = matches!(schema, Ok(Verdict::Good(_)));
            checks.push(Check::of("schema", schema));
            if is_usable {
                checks.push(Check::of("writing", writing(&store, context).await));
            }
            checks.push(Check::of("clocks", clocks(&store).await));
            checks.push(Check { name: "wake-ups", verdict: wakeups(&store) });
        }
        Err(failure) => checks.push(Check { name: "database", verdict: Verdict::of(&failure) }),
    }
    // A disk without room may be why it could not be opened.
    checks.extend(disk(context).map(|verdict| Check { name: "disk", verdict }));
    checks
}

async fn connection(store: &Store) -> Result<Verdict, StoreError> {
    let clock = SystemClock::new();
    let before = clock.monotonic();
    now(store).await?;
    let took = clock.monotonic().since(before);
    Ok(Verdict::Good(format!("{} answers in {:.1} ms", store.place(), took.as_secs_f64() * 1000.0)))
}

async fn now(store: &Store) -> Result<Timestamp, StoreError> {
    let mut tx = store.read().await?;
    let now = tx.now().await?;
    Ok(now)
}

async fn schema(store: &Store) -> Result<Verdict, StoreError> {
    let status = store.migration_status().await?;
    let count = |standing| status.iter().filter(|line| line.standing == standing).count();
    let pending = count(MigrationState::Pending);
    Ok(if count(MigrationState::Changed) + count(MigrationState::NewerBreaking) > 0 {
        Verdict::bad("the schema was made by another version of Tidemill", "see `tidemill db status`")
    } else if pending > 0 && store.dialect() == Dialect::Postgres {
        Verdict::bad(format!("migrations missing: {pending}"), "run `tidemill db migrate`")
    } else if pending > 0 {
        let detail = format!("migrations missing: {pending}; they are applied at the first use");
        Verdict::warning(detail, "run `tidemill db migrate` to do it now")
    } else {
        Verdict::Good(format!("migrations applied: {}", status.len()))
    })
}

/// Writes for real, and takes it back.
async fn writing(store: &Store, context: &Context) -> Result<Verdict, StoreError> {
    let mut tx = store.begin().await?;
    tx.processes().register(SystemIds.process(), &context.identity(), Duration::from_secs(1)).await?;
    tx.rollback().await?;
    Ok(Verdict::Good("this user can write".into()))
}

async fn clocks(store: &Store) -> Result<Verdict, StoreError> {
    let clock = SystemClock::new();
    let before = clock.now();
    let database = now(store).await?;
    let after = clock.now();
    // The database looked at its clock somewhere between our two looks.
    let skew = before.since(database).max(database.since(after));
    if skew <= SKEW_MAX {
        return Ok(Verdict::Good(format!("differ by at most {} ms", skew.as_millis().max(1))));
    }
    let detail = format!("this host's clock differs from the database's by {:.1} s", skew.as_secs_f64());
    Ok(Verdict::warning(detail, "synchronise the clocks; leases are safe, but log times do not match"))
}

fn wakeups(store: &Store) -> Verdict {
    match (store.dialect(), store.is_behind_transaction_pooler()) {
        (Dialect::Sqlite, _) => {
            Verdict::Good("within a process at once, between processes by polling".into())
        }
        (Dialect::Postgres, false) => Verdict::Good("by notification".into()),
        (Dialect::Postgres, true) => Verdict::warning(
            "behind a transaction pooler: by polling only",
            "connect directly or through a session pooler",
        ),
    }
}

/// Free space where an embedded database lies; a server's disk cannot be seen from here.
fn disk(context: &Context) -> Option<Verdict> {
    let url = context.database_url().ok()?;
    let path = url.file()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let space = rustix::fs::statvfs(folder).ok()?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let detail = format!("{} MiB free in {}", free / (1024 * 1024), folder.display());
    if free < FREE_BYTES_MIN {
        return Some(Verdict::warning(detail, "free space, or move the database by database.url"));
    }
    Some(Verdict::Good(detail))
}
