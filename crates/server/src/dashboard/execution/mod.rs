//! Executions: the list, and the page of one.
//!
//! Reading order: `list` (filter and table), `page_data` (what the page reads), `page` (the page and its regions), then one
//! file per part of the page.

pub(crate) mod action;
pub(crate) mod content;
pub(crate) mod head;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod page;
pub(crate) mod page_data;
pub(crate) mod step;
pub(crate) mod timeline;

pub use list::ExecutionsView;
pub(crate) use list::all;
pub(crate) use page::{download, page};
