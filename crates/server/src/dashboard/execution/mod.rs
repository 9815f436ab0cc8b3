//! One execution: where it is, what can be done about it, its steps, and what went wrong.
//!
//! Reading order: `seen` (what is looked at), `page` (the page and its regions), then one file per part of the page, and
//! `operate` (what is done about it).

pub(crate) mod action;
pub(crate) mod content;
pub(crate) mod download;
pub(crate) mod fault;
pub(crate) mod head;
pub(crate) mod operate;
pub(crate) mod page;
pub(crate) mod seen;
pub(crate) mod step;
pub(crate) mod timeline;

pub(crate) use page::page;
