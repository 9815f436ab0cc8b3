//! Jobs: how authors write them, and how they run.
//!
//! A job consists of [`definition`], [`graph`] and [`step`]. The kinds of steps are [`chunk_step`] (with [`component`],
//! [`scope`] and [`reject`]), [`tasklet`], [`sql_step`], [`command`], [`spark`], [`remote`], `job_step` and [`partition`].
//!
//! Running a job, each file calls the next: [`launch`], [`launcher`], [`run_job`], `run_step`, `chunk_loop`, `commit`.

pub mod component;
pub mod definition;
pub mod error;
pub mod graph;
pub mod listener;
pub mod reject;
pub mod scope;
pub mod step;
pub mod stop;

pub mod chunk_step;
pub mod command;
mod job_step;
pub mod partition;
pub mod remote;
pub mod spark;
pub mod sql_step;
pub mod tasklet;

mod chunk_loop;
mod commit;
pub mod launch;
pub mod launcher;
pub mod run_job;
mod run_step;

mod execution;
mod pool_units;
mod retry;

mod chunk_buffer;
mod chunk_reader;
mod parallel_chunks;
mod prepare_chunk;
mod scan;

pub mod gauge;
pub mod purge;
pub mod recovery;
pub mod reload;

use chunk_buffer::{Ahead, ChunkBuffer, ReadChunk, ReadError, kind_of};
use execution::{Execution, step_seed};
use listener::{
    ChunkListener, ItemListener, JobListener, JobRun, RetryListener, SkipListener, StepListener, StepRun,
};
use retry::{ExecutionLost, LostAnswer, while_away};
use scope::StepScopeParts;
use step::{CommittedState, Described, Outcome, StepBody, StepFailure, StepFuture, StepResources, StepTask};
use stop::{StopSignal, StopSwitch, Urgency};

pub use chunk_step::ChunkStep;
pub use command::CommandSpec;
pub use command::log::{LogFolder, LogPart, LogPlace};
pub use component::{Delivery, ItemPlace, ItemProcessor, ItemReader, ItemStream, ItemWriter, PassThrough};
pub use definition::{InvalidJobFile, Job, JobRegistry};
pub use error::JobError;
pub use graph::{Decision, StepFlow};
pub use launch::Launching;
pub use launcher::{Launcher, Running};
pub use partition::{Partition, PartitionedStep, Partitioner, RangePartitioner};
pub use purge::{PurgeOrder, PurgeReport};
pub use reject::Rejects;
pub use remote::{RemoteError, RemoteErrorKind, RemoteKey, RemoteSpec, RemoteState, RemoteWork};
pub use run_job::ExecutionEnd;
pub use scope::{ChunkScope, StepScope};
pub use spark::SparkSpec;
pub use sql_step::SqlStatements;
pub use step::Step;
pub use tasklet::{RepeatStatus, TaskletScope};
pub use tidemill_domain::job::command::CommandExit;
pub use tidemill_domain::job::notify::NotifyOn;
pub use tidemill_domain::job::pool::PoolUse;
pub use tidemill_domain::job::spark::Granted;
