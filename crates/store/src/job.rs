//! Jobs: what Spring Batch calls the job repository.
//!
//! Reading order: [`launch`] (a job begins, or is refused), [`execution`] (its course), [`step`], [`chunk`],
//! [`partition`] and [`previous_run`] (the course of its steps, and where one of another instance ended), [`operate`] (what people may do to it), [`orphan`] (what becomes of it
//! when its process is gone, and of what it held), [`purge`] (how it is forgotten), [`list`] and [`track`] (what
//! people see).
//!
//! An execution belongs to the process that holds the lease `job/<execution id>`, from the transaction that makes
//! it to the one that ends it. Everything that its process writes passes that fence; what somebody else decides
//! about it is decided either without touching what the process writes (a stop) or after the lease has gone.
//!
//! Executions that Spring Batch has written have no row in `tidemill_job_execution`. They are listed, and an
//! operator may act on them; nothing happens to them by itself.

pub mod launch;

pub mod execution;

pub mod chunk;
pub mod partition;
pub mod previous_run;
pub mod step;

pub mod operate;
pub mod orphan;

pub mod purge;

pub mod track;

pub mod list;
pub mod record;
pub mod reject;

mod columns;

pub use chunk::{ChunkSave, ChunkSaved};
pub use launch::{LaunchRequest, Launched};
pub use list::ExecutionFilter;
pub use operate::Operated;
pub use orphan::{DueRestart, Recovered};
pub use partition::{Claim, Claimed, KnownWorker, PartitionOutcome, PartitionRequest, PartitionStart};
pub use previous_run::{PreviousPosition, PreviousRunRequest};
pub use purge::{PurgeShare, PurgeWalk, Removed};
pub use record::{
    ExecutionDetail, ExecutionRecord, InstanceRecord, JobRecord, LastExecution, Owner, ParameterRecord,
    RunRecord, StepRecord, StopRequest, StoredContext,
};
pub use reject::{RejectRecord, RejectRow};
pub use step::{StepEnd, StepRequest, StepStart};
pub use track::{ExecutionTally, Failure};

use tidemill_domain::job::ExecutionId;
use tidemill_domain::lease::LeaseKey;

const LEASE_KIND: &str = "job";

/// Topic of the wake-up that is sent when a job is to be restarted by itself.
pub const RESTART_DUE: &str = "job_restart_due";

/// Topic of the wake-up that is sent when somebody wants this execution to stop.
pub fn stop_topic(execution: ExecutionId) -> String {
    format!("job_stop:{execution}")
}

pub fn lease_key(execution: ExecutionId) -> LeaseKey {
    LeaseKey::new(LEASE_KIND, &execution.to_string()).expect("a number is the name of a lease")
}

/// An execution, as the audit log names it.
fn object(execution: ExecutionId) -> String {
    format!("execution/{execution}")
}
