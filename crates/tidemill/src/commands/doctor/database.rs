//! The database: whether it answers, has our schema, can be written, agrees about the time, and has room.

use super::{Check, Verdict};
use crate::context::Context;
use crate::report::Failure;
use std::path::Path;
use std::time::Duration;
use tidemill_domain::time::Clock;
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
            checks.push(connection(&store).await);
            let schema = schema(&store).await;
            let is_usable = matches!(schema.verdict, Verdict::Good(_));
            checks.push(schema);
            if is_usable {
                checks.push(writing(&store, context).await);
            }
            checks.push(clocks(&store).await);
            checks.push(wakeups(&store));
        }
        Err(failure) => checks.push(Check { name: "database", verdict: Verdict::of(&failure) }),
    }
    // A disk without room may be why it could not be opened.
    checks.extend(disk(context));
    checks
}

fn failed(error: StoreError) -> Verdict {
    Verdict::of(&Failure::from(error))
}

async fn connection(store: &Store) -> Check {
    let clock = SystemClock::new();
    let before = clock.monotonic();
    let verdict = match now(store).await {
        Ok(_) => {
            let took = clock.monotonic().since(before);
            Verdict::Good(format!("{} answers in {:.1} ms", store.place(), took.as_secs_f64() * 1000.0))
        }
        Err(error) => failed(error),
    };
    Check { name: "database", verdict }
}

async fn now(store: &Store) -> Result<tidemill_domain::time::Timestamp, StoreError> {
    let mut tx = store.read().await?;
    let now = tx.now().await?;
    Ok(now)
}

async fn schema(store: &Store) -> Check {
    let verdict = match store.migration_status().await {
        Err(error) => failed(error),
        Ok(status) => {
            let count = |standing| status.iter().filter(|line| line.standing == standing).count();
            let pending = count(MigrationState::Pending);
            if count(MigrationState::Changed) + count(MigrationState::NewerBreaking) > 0 {
                Verdict::Bad {
                    detail: "the schema was made by another version of Tidemill".into(),
                    fix: "see `tidemill db status`".into(),
                }
            } else if pending > 0 && store.dialect() == Dialect::Postgres {
                Verdict::Bad {
                    detail: format!("migrations missing: {pending}"),
                    fix: "run `tidemill db migrate`".into(),
                }
            } else if pending > 0 {
                Verdict::Warning {
                    detail: format!("migrations missing: {pending}; they are applied at the first use"),
                    fix: "run `tidemill db migrate` to do it now".into(),
                }
            } else {
                Verdict::Good(format!("migrations applied: {}", status.len()))
            }
        }
    };
    Check { name: "schema", verdict }
}

/// Writes for real, and takes it back.
async fn writing(store: &Store, context: &Context) -> Check {
    let probe = async {
        let mut tx = store.begin().await?;
        tx.processes().register(SystemIds.process(), &context.identity(), Duration::from_secs(1)).await?;
        tx.rollback().await
    };
    let verdict = match probe.await {
        Ok(()) => Verdict::Good("this user can write".into()),
        Err(error) => failed(error),
    };
    Check { name: "writing", verdict }
}

async fn clocks(store: &Store) -> Check {
    let clock = SystemClock::new();
    let before = clock.now();
    let verdict = match now(store).await {
        Err(error) => failed(error),
        Ok(database) => {
            let after = clock.now();
            // The database looked at its clock somewhere between our two looks.
            let skew = before.since(database).max(database.since(after));
            if skew > SKEW_MAX {
                Verdict::Warning {
                    detail: format!(
                        "this host's clock differs from the database's by {:.1} s",
                        skew.as_secs_f64()
                    ),
                    fix: "synchronise the clocks; leases are safe, but log times do not match".into(),
                }
            } else {
                Verdict::Good(format!("differ by at most {} ms", skew.as_millis().max(1)))
            }
        }
    };
    Check { name: "clocks", verdict }
}

fn wakeups(store: &Store) -> Check {
    let verdict = match (store.dialect(), store.is_behind_transaction_pooler()) {
        (Dialect::Sqlite, _) => {
            Verdict::Good("within a process at once, between processes by polling".into())
        }
        (Dialect::Postgres, false) => Verdict::Good("by notification".into()),
        (Dialect::Postgres, true) => Verdict::Warning {
            detail: "behind a transaction pooler: by polling only".into(),
            fix: "connect directly or through a session pooler".into(),
        },
    };
    Check { name: "wake-ups", verdict }
}

/// Free space where an embedded database lies; a server's disk cannot be seen from here.
fn disk(context: &Context) -> Option<Check> {
    let url = context.database_url().ok()?;
    let path = url.file()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let space = rustix::fs::statvfs(folder).ok()?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let detail = format!("{} MiB free in {}", free / (1024 * 1024), folder.display());
    let verdict = if free < FREE_BYTES_MIN {
        Verdict::Warning { detail, fix: "free space, or move the database by database.url".into() }
    } else {
        Verdict::Good(detail)
    };
    Some(Check { name: "disk", verdict })
}
