//! The loops of Tidemill: what runs, keeps itself alive, and stops itself in time.
//!
//! Reading order: [`clock`] (the only reader of time, ids and chance), [`environment`] (what programs that we start find
//! of ours), [`process`] (this process's row and its heartbeat), [`lease`] (what it holds), [`lease_guard`] (how long it may act on that), `service` (what is done again and again),
//! [`reaper`] (what the dead leave behind).

pub mod clock;
pub mod environment;

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

/// Boxes the future of an `async fn`, so that its body is compiled once, in this crate. Otherwise each crate that awaits it
/// compiles it again, in each of its codegen units: see ADR 0028.
pub(crate) use async_recursion::async_recursion as boxed;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use clock::{SystemClock, SystemIds};
pub use error::EngineError;
pub use lease::HeldLease;
pub use lease_guard::LeaseGuard;
pub use process::{Process, ProcessOptions};

/// Locks also after a panic of whoever had it: no change that is made under one of our locks can be half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
