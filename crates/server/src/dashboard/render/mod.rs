//! The pages of renders: the list, one render with its attempts, workers, profiles and field mappings.
//!
//! Reading order: `filter` (the query string), [`board`] (the live list), `row` (one render in it), [`page`], [`order`] (the
//! question before an action); [`one`] (the page of one render) with `attempt`, `report`, `text` and [`poster`]; [`worker`]
//! and [`composition`].

pub(crate) mod board;
pub(crate) mod composition;
pub(crate) mod one;
pub(crate) mod order;
pub(crate) mod page;
pub(crate) mod poster;
pub(crate) mod worker;

mod attempt;
mod filter;
mod report;
mod row;
mod text;

pub(crate) use page::page;
