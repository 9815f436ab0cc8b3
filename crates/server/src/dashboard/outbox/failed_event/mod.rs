//! The pages of failed events: the list, one event, and changes of many events.

pub(crate) mod list;
pub(crate) mod many;
pub(crate) mod one;

mod filter;
