//! Checks of the database: connection, schema, write access, clocks, wake-ups and disk space.

use super::{Check, Verdict};
use crate::context::Context;
use std::path::Path;
use std::time::Duration;
use tidemill_domain::time::{Clock, Timestamp};
use tidemill_engine::{SystemClock, SystemIds};
use tidemill_store::migration::MigrationState;
use tidemill_store::url::Dialect;
use tidemill_store::{Store, StoreError};

/// A larger difference makes logs hard to read. Leases use the clock of the database.
const SKEW_MAX: Duration = Duration::from_secs(1);

/// With less free space, SQLite soon cannot write.
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
    // A full disk may be why the database cannot be opened.
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
    let count = |state| status.iter().filter(|line| line.state == state).count();
    let pending = count(MigrationState::Pending);
    Ok(if count(MigrationState::Changed) + count(MigrationState::NewerBreaking) > 0 {
        Verdict::bad("the schema was made by another version of Tidemill", "see `tidemill db status`")
    } else if pending > 0 && store.dialect() == Dialect::Postgres {
        Verdict::bad(format!("migrations missing: {pending}"), "run `tidemill db migrate`")
    } else if pending > 0 {
        let detail = format!("migrations missing: {pending}; the next command applies them");
        Verdict::warning(detail, "run `tidemill db migrate` to apply them now")
    } else {
        Verdict::Good(format!("migrations applied: {}", status.len()))
    })
}

/// Writes a row and rolls back.
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
    // The database read its clock between our two readings.
    let skew = before.since(database).max(database.since(after));
    if skew <= SKEW_MAX {
        return Ok(Verdict::Good(format!("differ by at most {} ms", skew.as_millis().max(1))));
    }
    let detail = format!("this host's clock differs from the database's by {:.1} s", skew.as_secs_f64());
    Ok(Verdict::warning(detail, "synchronise the clocks; leases are safe, but times in logs differ"))
}

fn wakeups(store: &Store) -> Verdict {
    match (store.dialect(), store.is_behind_transaction_pooler()) {
        (Dialect::Sqlite, _) => {
            Verdict::Good("immediate within a process, by polling between processes".into())
        }
        (Dialect::Postgres, false) => Verdict::Good("by notification".into()),
        (Dialect::Postgres, true) => Verdict::warning(
            "by polling only, because of the transaction pooler",
            "connect directly or through a session pooler",
        ),
    }
}

/// Free space beside an SQLite database. The disk of a database server is not visible from here.
fn disk(context: &Context) -> Option<Verdict> {
    let url = context.database_url().ok()?;
    let path = url.file()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let space = rustix::fs::statvfs(folder).ok()?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let detail = format!("{} MiB free in {}", free / (1024 * 1024), folder.display());
    if free < FREE_BYTES_MIN {
        return Some(Verdict::warning(
            detail,
            "free some space, or move the database and change database.url",
        ));
    }
    Some(Verdict::Good(detail))
}
