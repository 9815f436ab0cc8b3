//! Statements on renders. Columns that an adopted table may have in another type are cast.

pub(crate) mod attempt;
pub(crate) mod audit;
pub(crate) mod composition;
pub(crate) mod data;
pub(crate) mod leftover;
pub(crate) mod queue;
pub(crate) mod save;
pub(crate) mod standing;
pub(crate) mod worker;
