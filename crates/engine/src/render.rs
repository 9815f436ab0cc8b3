//! Renders: a worker that takes them from the queue, has them rendered by nexrender, and publishes what is good.
//!
//! Reading order: [`backends`] (who renders, who looks at files), [`storage`] (where files go), [`places`]
//! (where exactly), [`licence`] (how many at once), [`material`] (what a render is made of), [`options`] and [`worker`]
//! (how it works); then what it is made of: `held` (what it has), `task` (one render), `composition_cache` (what is known of
//! compositions), `report` (what was found in a file), `claiming`, `renewal`, `reaping`, `orphan_job` and `checkup` (its
//! loops), `worker_context` (what they share), `tell` (what people hear); [`health`] and [`gauge`] (how it stands). Whoever talks
//! to nexrender, to ffmpeg and to a NAS lives with its adapter.

pub mod backends;
pub mod storage;

pub mod licence;
pub mod material;
pub mod options;
pub mod places;

pub mod worker;

mod checkup;
mod claiming;
mod composition_cache;
mod held;
mod orphan_job;
mod reaping;
mod renewal;
mod report;
mod task;
mod tell;
mod worker_context;

pub mod gauge;
pub mod health;
pub(crate) mod metrics;

pub use backends::{Backends, Farm, Inspector};
pub use health::Health;
pub use licence::Licence;
pub use material::{BadMaterial, Material};
pub use options::WorkerOptions;
pub use places::Places;
pub use storage::Storage;
pub use worker::{Worker, WorkerHandle};

use crate::clock::pause_after;
use std::pin::Pin;
use std::time::Duration;
use tidemill_domain::render::Trouble;

/// Something that the world is asked for, and what may go wrong with it.
pub type Asking<'a, T> = Pin<Box<dyn Future<Output = Result<T, Trouble>> + Send + 'a>>;

/// First and longest pause after failures of the database in a row.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LONGEST: Duration = Duration::from_secs(2);

/// How long to wait after so many failures of the database in a row.
fn short_pause(failures: u32) -> Duration {
    pause_after(failures, RETRY_FIRST, RETRY_LONGEST)
}
