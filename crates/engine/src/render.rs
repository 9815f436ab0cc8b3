//! Renders: a worker that claims them from the queue, has them rendered by nexrender, and publishes the files.

pub mod backends;
pub mod storage;

pub mod correction;
pub mod licence;
pub mod material;
pub mod options;
pub mod places;
pub mod purge;
pub mod selection;
pub mod sheet;

pub mod worker;

mod claiming;
mod composition_cache;
mod held;
mod orphan_job;
mod reaping;
mod renewal;
mod target;
mod task;
mod tell;
mod worker_context;

pub mod gauge;
pub mod health;

pub use backends::{Backends, Farm, Inspector};
pub use correction::{Corrected, Correction};
pub use health::Health;
pub use licence::Licence;
pub use material::{BadMaterial, Material};
pub use options::WorkerOptions;
pub use places::Places;
pub use purge::{RenderFiles, RenderPurge, RenderPurgeReport};
pub use selection::{Selection, SelectionError};
pub use sheet::{Sheet, SheetError};
pub use storage::Storage;
pub use worker::Worker;

use crate::{BoxFuture, pause_after};
use held::{HeldRender, Instruction, Registry};
use std::time::Duration;
use tidemill_domain::render::Trouble;
use worker_context::WorkerContext;

/// A call to a backend.
pub type Asking<'a, T> = BoxFuture<'a, Result<T, Trouble>>;

/// First and longest pause after failures of the database in a row.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LONGEST: Duration = Duration::from_secs(2);

fn short_pause(failures: u32) -> Duration {
    pause_after(failures, RETRY_FIRST, RETRY_LONGEST)
}
