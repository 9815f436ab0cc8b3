//! Statements on jobs, in Spring Batch's tables and in our own beside them.
//!
//! Locks are taken in the order instance, lease, process, execution, step. An execution is locked `for no key
//! update`, because its steps refer to it and must be able to start meanwhile.
//!
//! Columns of Spring's tables are given the names that they have (`status as status`): its scripts may have made them in
//! capitals, and SQLite answers with the name as it was declared.

pub(crate) mod chunk;
pub(crate) mod execution;
pub(crate) mod instance;
pub(crate) mod list;
pub(crate) mod note;
pub(crate) mod orphan;
pub(crate) mod parameter;
pub(crate) mod partition;
pub(crate) mod purge;
pub(crate) mod step;
pub(crate) mod track;

use crate::codec::DbStamp;
use tidemill_domain::job::BatchStatus;

/// An exit status as its columns hold it.
pub(crate) struct ExitColumns {
    pub(crate) code: String,
    pub(crate) message: String,
}

/// A new status of an execution; what is absent stays as it is.
pub(crate) struct StatusChange<'a> {
    pub(crate) id: i64,
    pub(crate) status: BatchStatus,
    pub(crate) started_at: Option<DbStamp>,
    pub(crate) ended_at: Option<DbStamp>,
    pub(crate) exit: Option<&'a ExitColumns>,
    pub(crate) now: DbStamp,
}

/// A context as its two columns hold it.
pub(crate) struct ContextColumns<'a> {
    pub(crate) short: String,
    pub(crate) long: Option<&'a str>,
}

/// Nobody counts to the end of 63 bits; one who did would stay there.
fn count(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
