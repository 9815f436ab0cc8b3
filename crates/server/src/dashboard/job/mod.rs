//! Jobs: the list, and the page of one.
//!
//! Reading order: [`view`] and `state` (filter and state), `list` (all jobs), `detail` (one job) and the parts
//! of its page.

pub(crate) mod chart;
pub(crate) mod definition;
pub(crate) mod detail;
pub(crate) mod instance;
pub(crate) mod list;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod state;
pub(crate) mod view;

pub(crate) use detail::job;
pub(crate) use list::jobs;
pub use view::JobsView;
