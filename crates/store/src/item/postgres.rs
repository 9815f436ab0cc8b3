//! PostgreSQL: its types in their binary form, and how queries run on it.

mod encode;
mod kind;
mod numeric;
mod read;
mod text;

pub(crate) use encode::{Encoded, encode};
pub(crate) use kind::PgKind;
pub(crate) use numeric::normalised;
pub(crate) use read::{Plan, deallocate, execute, fetch, prepare, scalar, stream};
