//! Jobs: how authors write them, and how they run.
//!
//! Reading order: [`component`] and [`scope`] (what a step is made of), [`definition`], [`graph`], [`step`], [`chunk_step`],
//! [`partition`], [`tasklet`], [`command`], [`spark`] and [`sql_step`] (how a job is put together), [`listener`] (who is
//! told), [`launcher`] and `run_job` (how it runs), [`recovery`] (what is done about those whose process died), [`purge`]
//! (how old ones are forgotten).

pub mod component;
pub mod scope;

pub mod definition;
pub mod describe;
pub mod graph;
pub mod step;

mod chunk_buffer;
mod chunk_loop;
mod chunk_reader;
mod chunk_run;
mod chunk_source;
pub mod chunk_step;
pub mod command;
mod job_step;
mod lifecycle_events;
mod parallel_chunks;
pub mod partition;
mod prepare_chunk;
pub mod spark;
pub mod sql_step;
pub mod tasklet;

pub mod listener;
pub mod reject;

mod execution;
pub mod launch;
mod launch_next;
pub mod launcher;
mod pool_units;
mod run_job;
mod run_step;
pub mod stop;
mod walk_flow;

pub mod recovery;

pub mod purge;

pub mod error;

pub use chunk_step::ChunkStep;
pub use command::CommandSpec;
pub use component::{Delivery, ItemPlace, ItemProcessor, ItemReader, ItemStream, ItemWriter, PassThrough};
pub use definition::{Job, JobRegistry};
pub use error::JobError;
pub use graph::{Decision, StepFlow};
pub use launch::Launching;
pub use launcher::{ExecutionEnd, Launcher, Running};
pub use partition::{Partition, PartitionedStep, Partitioner, RangePartitioner};
pub use purge::{PurgeOrder, PurgeReport};
pub use reject::Rejects;
pub use scope::{ChunkScope, StepScope};
pub use spark::SparkSpec;
pub use sql_step::SqlStatements;
pub use step::Step;
pub use tasklet::{RepeatStatus, Tasklet, TaskletScope};
pub use tidemill_domain::job::command::CommandExit;
pub use tidemill_domain::job::pool::PoolUse;
pub use tidemill_domain::job::spark::Granted;
