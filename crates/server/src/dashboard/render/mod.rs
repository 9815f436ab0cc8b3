//! The pages of renders: the list, one render with its attempts, workers, profiles and field mappings.
//!
//! Reading order: [`page`] (the list), [`board`] (the live list), `row` (one render in it); [`one`] (the page of one render)
//! with `attempt`, `report`, `text`, [`poster`] and [`clip`]; [`selection`] (actions on many); [`order_form`] (orders one),
//! [`batch_form`] (orders many) and [`batch`] (their progress); [`worker`] and [`composition`].

pub(crate) mod batch;
pub(crate) mod batch_form;
pub(crate) mod board;
pub(crate) mod clip;
pub(crate) mod composition;
pub(crate) mod one;
pub(crate) mod order_form;
pub(crate) mod page;
pub(crate) mod poster;
pub(crate) mod selection;
pub(crate) mod worker;

mod attempt;
mod report;
mod row;
mod text;

pub(crate) use page::page;
