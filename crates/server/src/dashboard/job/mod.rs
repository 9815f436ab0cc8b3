//! Jobs: how each is doing, one of them in full, and what can be done with them.
//!
//! Reading order: [`view`] and `standing` (which jobs, and how they stand), `list` and `page` (all jobs), `detail` (one),
//! and the parts of its page.

pub(crate) mod chart;
pub(crate) mod definition;
pub(crate) mod detail;
pub(crate) mod instance;
pub(crate) mod list;
pub(crate) mod page;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod state;
pub(crate) mod view;

pub(crate) use detail::job;
pub(crate) use page::jobs;
pub use view::JobsView;
