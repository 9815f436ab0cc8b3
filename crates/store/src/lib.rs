//! Persistence: the only crate that knows SQL.
//!
//! Two databases are a closed set that we own, so they are an enum and not a trait. Three layers:
//!
//! 1. `postgres/` and `sqlite/`: connections; [`tx`]: a transaction on either;
//! 2. `statement`: how each statement is declared once for both; `codec` reads and writes its values;
//! 3. [`lease`], [`process`], [`audit`], …: use cases (load, *ask the domain*, save), each with its statements.
//!
//! Start at [`Store`] in `store.rs`.

pub mod store;
pub mod tx;

pub mod alert;
pub mod audit;
pub mod inbox;
pub mod job;
pub mod lease;
pub mod outbox;
pub mod pool;
pub mod process;
pub mod render;
pub mod schedule;
mod step_back;

pub mod idempotency;
pub mod token;

pub mod item;

pub mod demo;

pub mod migration;
pub mod wakeup;

pub mod crash;
pub mod error;
pub mod options;
pub mod trace;
pub mod url;

mod codec;
mod postgres;
mod sqlite;
mod statement;
mod statements;
mod system;

#[cfg(feature = "scratch")]
pub mod scratch;

/// Boxes the future of an `async fn`, so that only this crate compiles its body, not every caller: see ADR 0028.
pub(crate) use async_recursion::async_recursion as boxed;

/// The driver, so that authors' statements use the same version.
pub use sqlx;

pub use error::StoreError;
pub use options::{Init, Pooler, StoreOptions, Synchronous};
pub use store::Store;
pub use tx::Tx;
pub use url::DatabaseUrl;
