//! Executions: those of all jobs, and one of them: where it is, what can be done about it, its steps, and what went wrong.
//!
//! Reading order: [`view`], `list` and `all` (which, and their table), `page_data` (what is looked at), `page` (the page and
//! its regions), then one file per part of the page; `action` has what can be done about it.

pub(crate) mod action;
pub(crate) mod all;
pub(crate) mod content;
pub(crate) mod download;
pub(crate) mod fault;
pub(crate) mod head;
pub(crate) mod list;
pub(crate) mod page;
pub(crate) mod page_data;
pub(crate) mod step;
pub(crate) mod timeline;
pub(crate) mod view;

pub(crate) use all::all;
pub(crate) use page::page;
pub use view::ExecutionsView;
