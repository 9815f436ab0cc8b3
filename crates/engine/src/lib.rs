//! The engine of Tidemill: everything that runs in a process, keeps itself alive, and stops itself in time.
//!
//! Start with [`process`] and [`lease`], then `service`, on which all background loops are built.

pub mod clock;
pub mod environment;
pub mod incarnation;
pub mod system;

pub mod lease;
pub mod lease_guard;
pub mod process;
pub mod reaper;
mod service;

#[warn(missing_docs)]
pub mod item;
#[warn(missing_docs)]
pub mod job;
#[warn(missing_docs)]
pub mod schedule;

pub mod pool;

pub mod outbox;

pub mod render;

pub mod alert;

#[warn(missing_docs)]
pub mod testing;

pub mod error;
pub mod metrics;

/// Boxes the future of an `async fn`, so that its body is compiled once, in this crate, and not in each crate that
/// awaits it: see ADR 0028.
pub(crate) use async_recursion::async_recursion as boxed;

use clock::{jitter_unit, jittered, pause_after};
use lease::{Leader, begin_under, until_lost};
use service::{FailureLog, Next, Service};
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tidemill_store::{Store, StoreError, Tx};

pub use clock::{SystemClock, SystemIds};
pub use error::EngineError;
pub use lease::HeldLease;
pub use lease_guard::LeaseGuard;
pub use process::{Process, ProcessOptions};

/// A boxed future that can be sent to another thread.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs `work` in a transaction, and commits it.
async fn transact<T>(
    store: &Store,
    work: impl AsyncFnOnce(&mut Tx) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut tx = store.begin().await?;
    let done = work(&mut tx).await?;
    tx.commit().await?;
    Ok(done)
}

/// Locks even a poisoned mutex: no change under one of our locks can be half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
