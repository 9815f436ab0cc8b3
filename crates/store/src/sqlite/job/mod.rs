//! Statements on jobs, in Spring Batch's tables and in our own beside them.
//!
//! Every column that is read is named: SQLite answers with the spelling of whoever made the table, and Spring
//! writes in capital letters.

pub(crate) mod attention;
pub(crate) mod chunk;
pub(crate) mod context;
pub(crate) mod execution;
pub(crate) mod instance;
pub(crate) mod list;
pub(crate) mod note;
pub(crate) mod orphan;
pub(crate) mod parameter;
pub(crate) mod partition;
pub(crate) mod purge;
pub(crate) mod reject;
pub(crate) mod step;
pub(crate) mod track;

mod sequence;
pub(crate) mod units;
