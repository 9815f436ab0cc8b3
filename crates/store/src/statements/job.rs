//! Statements on jobs, in Spring Batch's tables and in our own beside them.
//!
//! Lock order: instance, lease, process, execution, step. An execution is locked `for no key update`, because its steps
//! refer to it and must be able to start meanwhile.
//!
//! Columns of Spring's tables get explicit names (`status as status`): its scripts may have created them in capitals,
//! and SQLite returns the name as declared.

pub(crate) mod execution;
pub(crate) mod instance;
pub(crate) mod list;
pub(crate) mod orphan;
pub(crate) mod partition;
pub(crate) mod purge;
pub(crate) mod step;
pub(crate) mod track;

use crate::codec::DbStamp;
use tidemill_domain::job::BatchStatus;

pub(crate) struct ExitColumns {
    pub(crate) code: String,
    pub(crate) message: String,
}

/// Absent values leave their columns unchanged.
pub(crate) struct StatusChange<'a> {
    pub(crate) id: i64,
    pub(crate) status: BatchStatus,
    pub(crate) started_at: Option<DbStamp>,
    pub(crate) ended_at: Option<DbStamp>,
    pub(crate) exit: Option<&'a ExitColumns>,
    pub(crate) now: DbStamp,
}

pub(crate) struct ContextColumns<'a> {
    pub(crate) short: String,
    pub(crate) long: Option<&'a str>,
}
