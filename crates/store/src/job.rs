//! Jobs: what Spring Batch calls the job repository.
//!
//! Reading order: [`launch`], [`execution`] (its course), [`step`], [`chunk`], [`partition`], [`previous_run`] (where a
//! step of another instance ended), [`operate`] (operator actions), [`orphan`] (executions whose process is gone),
//! [`purge`] (retention), [`list`] and [`track`] (for people), [`watch`] (for alerts and metrics).
//!
//! An execution belongs to the process that holds the lease `job/<execution id>`, from the transaction that creates it
//! to the one that ends it. All writes of its process pass that fence. Others either do not touch what the process
//! writes (a stop), or act after the lease has gone.
//!
//! Lock order: instance, lease, process, execution, step. An execution is locked `for no key update`, because its steps
//! refer to it and must be able to start meanwhile.
//!
//! Columns of Spring's tables get explicit names (`status as status`): its scripts may have created them in capitals,
//! and SQLite returns the name as declared.
//!
//! Executions that Spring Batch has written have no row in `tidemill_job_execution`. They are listed, and an operator
//! may act on them; nothing automatic happens to them.

pub mod chunk;
pub(crate) mod columns;
pub mod execution;
pub mod launch;
pub mod list;
pub mod operate;
pub mod orphan;
pub mod partition;
pub mod previous_run;
pub mod purge;
pub mod record;
mod staged;
pub mod step;
pub mod track;
pub mod watch;

pub use chunk::{ChunkPlace, ChunkSave, ChunkSaved};
pub use execution::EndRecorded;
pub use launch::{LaunchRequest, Launched};
pub use list::ExecutionFilter;
pub use operate::ExecutionChanged;
pub use orphan::{DueRestart, Recovered};
pub use partition::{Claim, Claimed, KnownWorker, PartitionOutcome, PartitionRequest, PartitionStart};
pub use previous_run::{PreviousPosition, PreviousRunRequest};
pub use purge::{PurgeShare, PurgeWalk, Removed};
pub use record::{
    ExecutionDetail, ExecutionRecord, InstanceRecord, JobRecord, LastExecution, Owner, ParameterRecord,
    RunRecord, StepRecord, StopRequest, StoredContext,
};
pub use staged::Staged;
pub use step::{RejectRecord, RejectRow, StepEnd, StepRequest, StepStart};
pub use track::{ExecutionTally, Failure};
pub use watch::FailedJob;

use tidemill_domain::job::ExecutionId;
use tidemill_domain::lease::LeaseKey;

const LEASE_KIND: &str = "job";

/// Wake-up topic: a job is due for an automatic restart.
pub const RESTART_DUE: &str = "job_restart_due";

/// Wake-up topic: a stop of this execution was requested.
pub fn stop_topic(execution: ExecutionId) -> String {
    format!("job_stop:{execution}")
}

pub fn lease_key(execution: ExecutionId) -> LeaseKey {
    LeaseKey::new(LEASE_KIND, &execution.to_string()).expect("a number is the name of a lease")
}

/// The audited object.
fn object(execution: ExecutionId) -> String {
    format!("execution/{execution}")
}
