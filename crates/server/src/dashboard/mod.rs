//! The dashboard: pages rendered on the server, complete without JavaScript.
//!
//! Reading order: `frame` (navigation, header, footer), `page_context` (the request), [`region`] (live regions),
//! [`overview`] and its siblings (the pages), `part` (tables, panels, buttons), [`form`], `sheet` and `operate` (actions),
//! [`asset`] (style and script).

pub mod action;
pub mod alert;
pub mod asset;
pub mod audit;
pub mod execution;
pub mod form;
pub mod job;
pub mod login;
pub mod outbox;
pub mod overview;
pub mod pool;
pub mod preferences;
pub mod region;
pub mod render;
pub mod settings;
pub mod token;

pub(crate) mod frame;
pub(crate) mod instant;
pub(crate) mod operate;
pub(crate) mod page_context;
pub(crate) mod page_snapshot;
pub(crate) mod part;
pub(crate) mod sheet;

mod problem;

pub(crate) use frame::{Frame, Section};
pub(crate) use instant::Times;
pub(crate) use page_context::{PageContext, PageResult};
pub(crate) use page_snapshot::{PageSnapshot, Rows};
pub(crate) use problem::page as problem_page;
pub(crate) use region::{Audience, Buttons, Page, Region, Row};
