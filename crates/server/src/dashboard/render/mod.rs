//! The pages of the renders: what waits, what is at work and what came of it; one render with all that was tried; who
//! renders; and what is known of compositions.
//!
//! Reading order: `filter` (what is asked for), [`board`] (what is told, as regions), `row` (one render of it), [`page`],
//! [`order`] (what can be done with a render); [`one`] (a single render) with `attempt`, `report`, `text` and [`poster`];
//! [`worker`] and [`composition`].

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
