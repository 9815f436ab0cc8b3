//! What a job file says, with the place of every word that can be wrong.

use crate::source::Source;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tidemill_domain::item::{ErrorKind, Value};
use tidemill_domain::job::flow::Target;
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::parameter::ParameterSpec;
use tidemill_domain::job::pool::PoolUse;
use tidemill_domain::schedule::Schedule;
use tidemill_kafka::{Isolation, RowFormat};

/// Where something stands in a file; both count from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

#[derive(Clone, PartialEq, Debug)]
pub struct At<T> {
    pub value: T,
    pub place: Place,
}

#[derive(Clone, PartialEq, Debug)]
pub struct JobFile {
    pub path: PathBuf,
    pub name: At<String>,
    pub description: Option<String>,
    pub parameters: Vec<At<ParameterFile>>,
    /// Whether an instance that did not complete can be launched again.
    pub is_restartable: bool,
    pub on_crash: OnCrash,
    pub schedule: Option<At<ScheduleFile>>,
    pub steps: Vec<StepFile>,
    /// Of the whole definition, blanks and comments aside: another one means that the job has changed.
    pub fingerprint: String,
    pub source: Source,
}

#[derive(Clone, PartialEq, Debug)]
pub struct ScheduleFile {
    pub schedule: Schedule,
    pub places: BTreeMap<String, Place>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct ParameterFile {
    pub spec: ParameterSpec,
    /// The text that counts when none is given.
    pub default: Option<String>,
    /// What its values may be although they come from whoever launches the job.
    pub allows: Vec<Allowance>,
}

impl JobFile {
    pub(crate) fn specs(&self) -> Vec<ParameterSpec> {
        self.parameters.iter().map(|parameter| parameter.value.spec.clone()).collect()
    }
}

/// What values of a parameter may be because the author allows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allowance {
    /// A path, where they are put into one: they may lead to other folders.
    Path,
    /// An option of a program, where an argument begins with them.
    Option,
}

#[derive(Clone, PartialEq, Debug)]
pub struct StepFile {
    pub name: At<String>,
    pub work: Work,
    /// Where it goes on, by exit code pattern.
    pub on: Vec<(At<String>, At<Target>)>,
    pub allow_start_if_complete: bool,
    /// How often it may be started in one instance.
    pub start_limit: Option<u32>,
    pub pool: Option<At<PoolUse>>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Work {
    Chunk(Box<ChunkFile>),
    Command(CommandFile),
    Sql(SqlFile),
    Spark(SparkFile),
    Job(JobCall),
    Flow(Vec<StepFile>),
    Split(Vec<Vec<StepFile>>),
    /// Says where to go on: a CEL expression over `parameters`, `context` and `last`.
    Decide(At<String>),
}

#[derive(Clone, PartialEq, Debug)]
pub struct ChunkFile {
    pub size: usize,
    pub partitions: Option<At<PartitionsFile>>,
    /// How many chunks are processed at the same time.
    pub threads: usize,
    pub read: At<ReadFile>,
    /// A CEL expression; an item for which it is false is left out.
    pub filter: Option<At<String>>,
    /// Column and CEL expression; empty: the item as it is.
    pub map: Vec<(At<String>, At<String>)>,
    pub write: At<WriteFile>,
    pub skip: Option<SkipFile>,
    pub retry: Option<RetryFile>,
}

impl ChunkFile {
    /// The events that it writes, alone or beside rows.
    pub fn events(&self) -> Option<&OutboxFile> {
        match &self.write.value {
            WriteFile::Outbox(events) => Some(events),
            WriteFile::Sql { events, .. } => events.as_deref(),
            WriteFile::Csv(_) | WriteFile::JsonLines { .. } => None,
        }
    }
}

/// How a step is divided. Texts are templates: `${name}` is a parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct PartitionsFile {
    pub by: PartitionBy,
    /// Partitions that one process runs at once; none: as many as it has processors.
    pub concurrency: Option<usize>,
    /// Only in the process that runs the job.
    pub is_local: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub enum PartitionBy {
    /// One for each file of a pattern; in the step `${file}` is its path.
    File {
        /// Such as `in/*.csv`.
        pattern: At<String>,
    },
    /// Ranges of a numeric column; in the step `${range.from}` and `${range.to}` are its bounds, both of which belong to
    /// it.
    Range {
        column: At<String>,
        /// Of which table; the bounds are its least and greatest value.
        table: At<String>,
        /// How many; none: as many as the pool of the step grants.
        count: Option<usize>,
        /// Of which connection; none: the database of the job itself.
        connection: Option<At<String>>,
    },
}

#[derive(Clone, PartialEq, Debug)]
pub enum ReadFile {
    Csv(CsvFile),
    JsonLines {
        path: At<String>,
    },
    Sql {
        /// The statement; `${name}` is bound, never spliced.
        query: At<String>,
        /// Columns by which it is read page by page and restarted; empty: one cursor, counted on restart.
        key: Vec<At<String>>,
        /// Of which connection; none: the database of the job itself.
        connection: Option<At<String>>,
        /// Rows per page; of a cursor, rows that are fetched at once.
        page: Option<usize>,
    },
    Kafka(KafkaFile),
}

#[derive(Clone, PartialEq, Debug)]
pub struct KafkaFile {
    pub topic: At<String>,
    /// Where the first run begins: `earliest`, `latest` or an instant; a template.
    pub from: Option<At<String>>,
    /// Whether every instance begins there, and not where the one before it ended; none when nobody says.
    pub is_every_run: Option<At<bool>>,
    pub isolation: Isolation,
    pub format: RowFormat,
    /// How long brokers may be silent.
    pub timeout: Option<Duration>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct CsvFile {
    /// The file; a template. For reading also a pattern such as `in/*.csv`.
    pub path: At<String>,
    pub delimiter: u8,
    pub has_headers: bool,
    /// The columns, where the file does not say; for writing: which, and in which order.
    pub columns: Vec<String>,
    /// Its encoding, such as `euc-kr`; none: UTF-8.
    pub encoding: Option<At<String>>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum WriteFile {
    /// A table of the database of the job itself.
    Sql {
        /// Its name; may have a schema before it.
        table: At<String>,
        mode: WriteMode,
        /// Which columns; empty: those of `map`.
        columns: Vec<At<String>>,
        /// Events in the same transaction.
        events: Option<Box<OutboxFile>>,
    },
    Outbox(Box<OutboxFile>),
    Csv(CsvFile),
    JsonLines {
        path: At<String>,
    },
}

/// Events to write, one for each item that is written. Expressions see the item as `row`.
#[derive(Clone, PartialEq, Debug)]
pub struct OutboxFile {
    /// Where they go; a template.
    pub topic: At<String>,
    /// What sort of thing they happened to; a template.
    pub aggregate_type: At<String>,
    /// A CEL expression: which one.
    pub aggregate_id: At<String>,
    pub event_type: At<String>,
    /// A CEL expression; none: the whole item.
    pub payload: Option<At<String>>,
    pub headers: Vec<(At<String>, At<String>)>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum WriteMode {
    /// Binary COPY on PostgreSQL, inserts elsewhere.
    Copy,
    Insert,
    Upsert(Vec<At<String>>),
}

#[derive(Clone, PartialEq, Debug)]
pub struct SkipFile {
    pub limit: u64,
    /// Kinds of errors; empty: all.
    pub on: Vec<At<ErrorKind>>,
    /// The file for what was skipped; a template. `table` keeps it in the database.
    pub reject: Option<At<String>>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct RetryFile {
    pub limit: u32,
    /// Kinds of errors; empty: all.
    pub on: Vec<At<ErrorKind>>,
    /// How long to wait before the first repetition.
    pub backoff: Option<Duration>,
}

/// A program to run. Texts are templates.
#[derive(Clone, PartialEq, Debug)]
pub struct CommandFile {
    pub words: Vec<At<String>>,
    pub env: EnvFile,
    pub folder: Option<At<String>>,
    pub timeout: Option<Duration>,
    /// Exit codes of the program that are an exit code of the step, such as `3: NO_DATA`.
    pub exit_codes: BTreeMap<i32, String>,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct EnvFile {
    /// Variables that are set; templates.
    pub set: BTreeMap<String, At<String>>,
    /// Whether nothing of our own environment is passed on, but what is named.
    pub is_cleared: bool,
    /// Variables of our own environment that are passed on in any case.
    pub pass: Vec<String>,
}

/// SQL statements to run in one transaction.
#[derive(Clone, PartialEq, Debug)]
pub struct SqlFile {
    /// The statements; `${name}` is bound, never spliced.
    pub statements: Vec<At<String>>,
    /// On which connection; none: the database of the job itself.
    pub connection: Option<At<String>>,
}

/// An application for Spark. Texts are templates.
#[derive(Clone, PartialEq, Debug)]
pub struct SparkFile {
    pub app: At<String>,
    pub args: Vec<At<String>>,
    pub master: Option<At<String>>,
    pub conf: BTreeMap<String, At<String>>,
    pub timeout: Option<Duration>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct JobCall {
    /// Its name: of another file of the same folder.
    pub job: At<String>,
    /// Its parameters; templates. None: those of the same name, passed on.
    pub parameters: Option<BTreeMap<String, At<String>>>,
}

/// What `${name}` stands for when a step is built.
pub type Names = BTreeMap<String, Value>;
