//! Statements on jobs, in Spring Batch's tables and in our own beside them.
//!
//! Locks are taken in the order instance, lease, process, execution, step. An execution is locked `for no key
//! update`, because its steps refer to it and must be able to start meanwhile.

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
pub(crate) mod units;
