//! The content of a job file, with the place of everything that can be wrong.

use crate::Source;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tidemill_aws::EmrPlace;
use tidemill_domain::item::{ErrorKind, Value};
use tidemill_domain::job::flow::Target;
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::notify::NotifyOn;
use tidemill_domain::job::parameter::ParameterSpec;
use tidemill_domain::job::pool::PoolUse;
use tidemill_domain::schedule::Schedule;
use tidemill_kafka::reader::record::COLUMNS;
use tidemill_kafka::{Isolation, RowFormat};

mod file;
mod http;
mod process;
mod test;
mod write;

pub use file::{CsvFormat, DataFile, ExcelFormat, FileFormat, FixedColumn, FixedFormat, XmlFormat};
pub use http::{EndpointFile, HttpReadFile, HttpWriteFile};
pub use process::{ColumnRule, LookupFile, OnMissing, ProcessFile, SortBy};
pub use test::{DatabaseContent, Expectation, FileContent, TestCase, TestFile, TestRows};
pub use write::{BranchFile, KafkaWriteFile, StatementFile, TableFile, WriteFile, WriteMode};

/// A place in a file; both count from 1.
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
    /// Alert channels to notify of the end.
    pub notify: Vec<(NotifyOn, At<String>)>,
    pub steps: Vec<StepFile>,
    /// Changes when the definition changes, but not with blanks and comments.
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
    pub default: Option<String>,
    /// Unsafe values that the author allows.
    pub allows: Vec<Allowance>,
}

impl JobFile {
    pub(crate) fn specs(&self) -> Vec<ParameterSpec> {
        self.parameters.iter().map(|parameter| parameter.value.spec.clone()).collect()
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<&ParameterFile> {
        self.parameters.iter().map(|parameter| &parameter.value).find(|parameter| parameter.spec.name == name)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allowance {
    /// Values in a path may lead to other folders.
    Path,
    /// Values at the start of an argument may be options.
    Option,
}

#[derive(Clone, PartialEq, Debug)]
pub struct StepFile {
    pub name: At<String>,
    pub work: Work,
    pub on: Vec<(At<String>, At<Target>)>,
    pub allow_start_if_complete: bool,
    /// Maximum number of starts in one instance.
    pub start_limit: Option<u32>,
    pub pool: Option<At<PoolUse>>,
    /// Names of values that it sets, and where they come from: a query, a counter, or a key of the output.
    pub set: Vec<(At<String>, At<String>)>,
}

impl StepFile {
    /// The names of all values that it sets for later steps.
    pub(crate) fn set_names(&self) -> impl Iterator<Item = &At<String>> {
        let asserted = match &self.work {
            Work::Assert(all) => all.as_slice(),
            _ => &[],
        };
        self.set.iter().map(|(name, _)| name).chain(asserted.iter().filter_map(|one| one.set.as_ref()))
    }
}

#[derive(Clone, PartialEq, Debug)]
pub enum Work {
    Chunk(Box<ChunkFile>),
    Command(CommandFile),
    Sql(SqlFile),
    Assert(Vec<AssertFile>),
    Spark(SparkFile),
    Emr(EmrFile),
    Job(JobCall),
    Flow(Vec<StepFile>),
    Split(Vec<Vec<StepFile>>),
    /// A CEL expression over `parameters`, `context` and `last` that returns the exit code.
    Decide(At<String>),
}

#[derive(Clone, PartialEq, Debug)]
pub struct ChunkFile {
    pub size: usize,
    pub partitions: Option<At<PartitionsFile>>,
    /// Number of chunks processed concurrently.
    pub threads: usize,
    pub read: At<ReadFile>,
    pub process: ProcessFile,
    pub write: At<WriteFile>,
    pub skip: Option<SkipFile>,
    pub retry: Option<RetryFile>,
}

impl ChunkFile {
    /// The events that it writes, alone or with rows.
    pub(crate) fn events(&self) -> impl Iterator<Item = &OutboxFile> {
        self.write.value.all().into_iter().filter_map(|write| match write {
            WriteFile::Outbox(events) => Some(&**events),
            WriteFile::Sql(table) => table.events.as_deref(),
            _ => None,
        })
    }

    /// The services that it reads and writes.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &EndpointFile> {
        let read = self.reads().filter_map(|read| match read {
            ReadFile::Http(file) => Some(&file.endpoint),
            _ => None,
        });
        let written = self.write.value.all().into_iter().filter_map(|write| match write {
            WriteFile::Http(file) => Some(&file.endpoint),
            _ => None,
        });
        read.chain(written)
    }

    /// The file for skipped items, or `table`.
    pub(crate) fn reject(&self) -> Option<&At<String>> {
        self.skip.as_ref()?.reject.as_ref()
    }

    /// The file for skipped items in the format of the file that is read.
    pub(crate) fn reject_source(&self) -> Option<&At<String>> {
        self.skip.as_ref()?.reject_source.as_ref()
    }

    /// The columns of `map`, or else those that are read, if they are known.
    pub(crate) fn columns(&self) -> Vec<String> {
        match self.process.map.as_slice() {
            [] => self.joined_columns(),
            map => map.iter().map(|(column, _)| column.value.clone()).collect(),
        }
    }

    /// The columns that are read, if they are known, with those of the lookups.
    pub(crate) fn joined_columns(&self) -> Vec<String> {
        let mut columns = self.read.value.columns();
        if !columns.is_empty() {
            let added = self.process.lookups.iter().flat_map(|lookup| &lookup.columns);
            columns.extend(added.map(|(column, _)| column.value.clone()));
        }
        columns
    }

    /// What is read: the items, and the lookups.
    pub(crate) fn reads(&self) -> impl Iterator<Item = &ReadFile> {
        std::iter::once(&self.read.value).chain(self.process.lookups.iter().map(|lookup| &lookup.read.value))
    }
}

/// How a step is divided. Texts are templates: `${name}` is a parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct PartitionsFile {
    pub by: PartitionBy,
    /// Partitions that one process runs at once; by default the number of its CPUs.
    pub concurrency: Option<usize>,
    /// Only in the process that runs the job.
    pub is_local: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub enum PartitionBy {
    /// One for each file of a pattern; `${file}` is its path.
    File { pattern: At<String> },
    /// One for each row group of the Parquet files or record batch of the Arrow files of a pattern; `${file}` is the path,
    /// `${row_group}` the number.
    RowGroup { pattern: At<String> },
    /// Ranges of a numeric column; `${range.from}` and `${range.to}` are the inclusive bounds.
    Range {
        column: At<String>,
        /// The table whose least and greatest value are the bounds.
        table: At<String>,
        /// None means as many as the pool of the step grants.
        count: Option<usize>,
        /// None means the job's own database.
        connection: Option<At<String>>,
    },
}

#[derive(Clone, PartialEq, Debug)]
pub enum ReadFile {
    File(DataFile),
    Sql {
        /// `${name}` is bound, never spliced.
        query: At<String>,
        /// Columns for paging and restarts; empty means a cursor, which counts rows on restart.
        key: Vec<String>,
        /// None means the job's own database.
        connection: Option<At<String>>,
        /// Rows per page, or per fetch of a cursor.
        page: Option<usize>,
        /// Counts the rows first, for the progress bar.
        is_counted: bool,
    },
    Kafka(KafkaFile),
    Http(Box<HttpReadFile>),
}

impl ReadFile {
    pub(crate) fn path(&self) -> Option<&At<String>> {
        match self {
            Self::File(file) => Some(&file.path),
            Self::Sql { .. } | Self::Kafka(_) | Self::Http(_) => None,
        }
    }

    /// Empty if they are not known.
    pub(crate) fn columns(&self) -> Vec<String> {
        match self {
            Self::File(file) => file.format.columns(),
            Self::Kafka(_) => COLUMNS.map(str::to_owned).to_vec(),
            Self::Sql { .. } | Self::Http(_) => Vec::new(),
        }
    }

    /// Whether each item names its own columns, so that some may be missing.
    pub(crate) fn may_lack_columns(&self) -> bool {
        match self {
            Self::File(file) => file.format.may_lack_columns(),
            Self::Http(_) => true,
            Self::Sql { .. } | Self::Kafka(_) => false,
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct KafkaFile {
    pub topic: At<String>,
    /// Where the first run begins: `earliest`, `latest` or a timestamp; a template.
    pub from: Option<At<String>>,
    /// Whether every instance begins there, and not where the previous one ended; none if unspecified.
    pub is_every_run: Option<bool>,
    pub isolation: Isolation,
    pub format: RowFormat,
    pub timeout: Option<Duration>,
}

/// Events to write, one for each written item. Topic and types are templates; the rest are CEL expressions, which see the
/// item as `row`.
#[derive(Clone, PartialEq, Debug)]
pub struct OutboxFile {
    pub topic: At<String>,
    pub aggregate_type: At<String>,
    pub aggregate_id: At<String>,
    pub event_type: At<String>,
    /// By default the whole item.
    pub payload: Option<At<String>>,
    pub headers: Vec<(At<String>, At<String>)>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct SkipFile {
    pub limit: u64,
    /// Kinds of errors; empty means all.
    pub on: Vec<ErrorKind>,
    /// The file for skipped items; a template. `table` keeps them in the database.
    pub reject: Option<At<String>>,
    /// The file for skipped items in the format of the file that is read; a template.
    pub reject_source: Option<At<String>>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct RetryFile {
    pub limit: u32,
    /// Kinds of errors; empty means all.
    pub on: Vec<ErrorKind>,
    pub backoff: Option<Duration>,
}

/// Texts are templates.
#[derive(Clone, PartialEq, Debug)]
pub struct CommandFile {
    pub words: Vec<At<String>>,
    pub env: EnvFile,
    pub folder: Option<At<String>>,
    pub timeout: Option<Duration>,
    /// Exit codes of the program as exit codes of the step, such as `3: NO_DATA`.
    pub exit_codes: BTreeMap<i32, String>,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct EnvFile {
    pub set: BTreeMap<String, At<String>>,
    /// Whether only the named variables of our environment are inherited.
    pub is_cleared: bool,
    /// Variables of our environment that are always inherited.
    pub pass: Vec<String>,
}

/// Statements that run in one transaction.
#[derive(Clone, PartialEq, Debug)]
pub struct SqlFile {
    /// `${name}` is bound, never spliced.
    pub statements: Vec<At<String>>,
    /// None means the job's own database.
    pub connection: Option<At<String>>,
}

/// A query, and what its result has to be.
#[derive(Clone, PartialEq, Debug)]
pub struct AssertFile {
    /// `${name}` is bound, never spliced.
    pub query: At<String>,
    /// A CEL expression over `value`, `row`, `rows`, `now` and `parameters`.
    pub expect: At<String>,
    pub severity: Severity,
    /// The name under which later steps read the value.
    pub set: Option<At<String>>,
    /// None means the job's own database.
    pub connection: Option<At<String>>,
}

tidemill_domain::words! {
    /// What a broken expectation does to its step.
    pub enum Severity {
        Fail = "fail",
        Warn = "warn",
    }
}

/// Texts are templates.
#[derive(Clone, PartialEq, Debug)]
pub struct SparkFile {
    pub app: At<String>,
    pub args: Vec<At<String>>,
    pub master: Option<At<String>>,
    pub conf: BTreeMap<String, At<String>>,
    pub timeout: Option<Duration>,
}

/// Texts are templates.
#[derive(Clone, PartialEq, Debug)]
pub struct EmrFile {
    pub place: EmrPlace<At<String>>,
    pub app: At<String>,
    pub args: Vec<At<String>>,
    pub conf: BTreeMap<String, At<String>>,
    pub region: Option<At<String>>,
    pub timeout: Option<Duration>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct JobCall {
    /// A job of another file in the same folder.
    pub job: At<String>,
    /// Templates. None passes on the parameters of the same name.
    pub parameters: Option<BTreeMap<String, At<String>>>,
}

/// The values of `${name}`.
pub type Names = BTreeMap<String, Value>;
