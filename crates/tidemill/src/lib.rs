//! The face of Tidemill: the library that programs are built on, and the command line.
//!
//! A program of your own has the whole command line in one line:
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     tidemill::App::new().run()
//! }
//! ```
//!
//! The stock binary is exactly that. A job of your own is one more line, `.job(…)`; the [`prelude`] has what
//! its author needs, and [`testing`] what its tests need. Start reading at [`App`] in `app.rs`; each command is
//! one file in `commands/`.
//!
//! A program that only needs leases starts a process by itself:
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use tidemill::{EngineError, Identity, LeaseKey, Process, ProcessOptions, Store, SystemClock, Term};
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let store = Store::connect("sqlite::memory:").await?;
//! let identity = Identity { name: "nightly".into(), host: "a".into(), pid: 1, version: "1".into() };
//! let options = ProcessOptions { identity, ttl: Duration::from_secs(15) };
//! let process = Process::start(store.clone(), Arc::new(SystemClock::new()), options).await?;
//!
//! let key = LeaseKey::new("report", "2026-11-15").expect("a short name");
//! let lease = process.acquire(&key, Term::Process).await?;
//! let mut tx = store.begin().await?;
//! lease.confirm(&mut tx).await?; // whatever else is written in `tx` counts only if this process still may
//! tx.commit().await?;
//! lease.release().await?;
//! process.stop().await?;
//! # Ok::<(), EngineError>(())
//! # }).unwrap();
//! ```

#[warn(missing_docs)]
pub mod app;
pub mod config;

mod commands;
mod context;
mod declared;
mod output;
mod report;
mod system;
mod telemetry;
mod usage;
mod watch;

/// Boxes the future of an `async fn`, so that its body is compiled once, in this crate. Otherwise each crate that awaits it
/// compiles it again, in each of its codegen units: see ADR 0028.
pub(crate) use async_recursion::async_recursion as boxed;

pub use app::App;
pub use tidemill_domain::code::{Code, Exit};
pub use tidemill_domain::lease::{Fence, LeaseKey, Term};
pub use tidemill_domain::process::Identity;
pub use tidemill_domain::{audit, time};
pub use tidemill_engine::process::End;
pub use tidemill_engine::testing;
pub use tidemill_engine::{EngineError, HeldLease, Process, ProcessOptions, SystemClock, reaper};
pub use tidemill_store::{Init, Pooler, Store, StoreError, StoreOptions, Tx, sqlx};

/// Jobs: what they are made of, and how they run.
pub mod job {
    pub use tidemill_domain::backoff::Backoff;
    pub use tidemill_domain::job::fault::{FaultPolicy, Kinds};
    pub use tidemill_domain::job::flow::Target;
    pub use tidemill_domain::job::lifecycle::OnCrash;
    pub use tidemill_domain::job::parameter::{ParameterSpec, ParameterType};
    pub use tidemill_domain::job::{
        BatchStatus, Counters, ExecutionContext, ExecutionId, ExitStatus, InstanceId, JobParameter,
        JobParameters, ParameterValue, StepExecutionId,
    };
    pub use tidemill_engine::job::*;
}

/// Ready-made readers, processors and writers, and what they pass on.
///
/// ```
/// use tidemill::item::{CsvReader, Direction, SortedReader};
///
/// let reader = SortedReader::new("sorted", CsvReader::rows("rates", "in/rates.csv")).by("account", Direction::Ascending);
/// ```
pub mod item {
    pub use tidemill_domain::item::{
        Decimal, Direction, ErrorKind, FromValue, ItemError, Phase, Row, RowError, Value,
    };
    pub use tidemill_engine::item::*;
}

/// Schedules that launch jobs.
pub mod schedule {
    pub use tidemill_engine::schedule::{MissedRuns, Outside, Overlap, Schedule};
}

/// Events that commit with the data, and are published afterwards.
pub mod outbox {
    pub use tidemill_domain::outbox::{
        Aggregate, BadEvent, EventId, Headers, NewEvent, Payload, Slot, StoredEvent, StoredHeaders,
    };
    pub use tidemill_store::outbox::{EventFilter, EventRecord, publish_on};
}

/// Messages that come again are dealt with once.
pub mod inbox {
    pub use tidemill_domain::inbox::{BadMessage, CONSUMER_BYTES_MAX, MESSAGE_ID_BYTES_MAX};
    pub use tidemill_store::inbox::first_time_on;
}

/// Parquet, Arrow and Avro files as the source and the target of a step.
#[cfg(feature = "columnar")]
pub mod columnar {
    pub use tidemill_columnar::{Columnar, ColumnarReader, ColumnarWriter, row_groups, row_writer, writer};
    pub use tidemill_domain::item::{Codec, ColumnarFormat, ColumnarKind, FieldType};
}

/// Spark applications on Amazon EMR and EMR Serverless as steps.
pub mod aws {
    pub use tidemill_aws::{EmrPlace, EmrSpec, emr_step};
}

/// Services over HTTP as the source and the target of a step.
pub mod http {
    pub use tidemill_http::{
        Batch, HttpEndpoint, HttpError, HttpReader, HttpRetry, HttpWriter, Paging, Rate,
    };
}

/// Files in S3, Google Cloud Storage and Azure.
#[cfg(feature = "objects")]
pub mod objects {
    pub use tidemill_engine::item::storage::{Storage, install};
    pub use tidemill_objects::Objects;
}

/// Topics of Kafka as the source and the target of a step.
///
/// ```
/// use tidemill::kafka::{KafkaMessage, KafkaOptions, KafkaWriter};
///
/// let options = KafkaOptions::new("broker:9092");
/// let writer = KafkaWriter::new(&options, "orders", |id: &i64| {
///     Ok(KafkaMessage { key: Some(id.to_string().into_bytes()), ..KafkaMessage::default() })
/// });
/// # let _ = writer;
/// ```
pub mod kafka {
    pub use tidemill_kafka::reader::record::COLUMNS;
    pub use tidemill_kafka::{
        ClientOptions, Format, From, Isolation, KafkaError, KafkaMessage, KafkaOptions, KafkaReader,
        KafkaRecord, KafkaWriter, Mechanism, ReadFailure, RowFormat, Sasl, Security, Tls,
    };
}

/// What a first job needs. The rest is in [`job`], [`item`] and [`schedule`].
pub mod prelude {
    pub use crate::item::sql::{CursorReader, Database, KeysetReader, SqlQuery, SqlWriter};
    pub use crate::item::{
        CsvReader, CsvWriter, ErrorKind, ExcelReader, FixedWidthReader, FixedWidthWriter, ItemError,
        ItemsReader, ItemsWriter, JsonLinesReader, JsonLinesWriter, JsonReader, JsonWriter, Row, TextWriter,
        Value, XmlReader, XmlWriter,
    };
    pub use crate::job::{
        Backoff, ChunkScope, CommandExit, CommandSpec, Delivery, ExecutionContext, ItemProcessor, ItemReader,
        ItemStream, ItemWriter, Job, JobParameters, OnCrash, Partition, RangePartitioner, Rejects,
        RepeatStatus, SqlStatements, Step, StepScope, Target, TaskletScope,
    };
    pub use crate::schedule::{MissedRuns, Overlap, Schedule};
    pub use crate::{App, Store, StoreError, Tx};
}
