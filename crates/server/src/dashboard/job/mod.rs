//! Jobs: the list, and the page of one.
//!
//! Reading order: `state` (states and filter), `list` (all jobs), `detail` (one job) with `run` and `schedule`.

pub(crate) mod detail;
pub(crate) mod list;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod state;

pub(crate) use detail::job;
pub(crate) use list::jobs;
pub use state::JobsView;
