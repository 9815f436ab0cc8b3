//! What a step writes to: one target, several, or one that is chosen for each item.

use super::{At, DataFile, HttpWriteFile, OutboxFile};
use std::time::Duration;
use tidemill_kafka::Format;

#[derive(Clone, PartialEq, Debug)]
pub enum WriteFile {
    Sql(TableFile),
    /// A statement for each item.
    Statement(StatementFile),
    Outbox(Box<OutboxFile>),
    File(DataFile),
    Http(Box<HttpWriteFile>),
    Kafka(Box<KafkaWriteFile>),
    /// Every item goes to each of them.
    All(Vec<At<WriteFile>>),
    /// Every item goes to the first whose condition it meets.
    Choose(Vec<BranchFile>),
}

impl WriteFile {
    /// Itself and everything that it consists of.
    pub fn all(&self) -> Vec<&Self> {
        let parts: Vec<&At<Self>> = match self {
            Self::All(parts) => parts.iter().collect(),
            Self::Choose(branches) => branches.iter().map(|branch| &branch.to).collect(),
            _ => Vec::new(),
        };
        std::iter::once(self).chain(parts.into_iter().flat_map(|part| part.value.all())).collect()
    }

    /// The files that it writes.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &At<String>> {
        self.all().into_iter().filter_map(|write| match write {
            Self::File(file) => Some(&file.path),
            _ => None,
        })
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct BranchFile {
    /// A CEL expression over `row` and `parameters`; none takes every item.
    pub when: Option<At<String>>,
    pub to: At<WriteFile>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct TableFile {
    pub table: At<String>,
    pub mode: WriteMode,
    /// Empty means those of `map`.
    pub columns: Vec<At<String>>,
    /// None means the job's own database.
    pub connection: Option<At<String>>,
    /// Events in the same transaction.
    pub events: Option<Box<OutboxFile>>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum WriteMode {
    /// Binary COPY on PostgreSQL, inserts elsewhere.
    Copy,
    Insert,
    /// By the columns of a unique index.
    Upsert(Vec<At<String>>),
    /// The rows with these columns.
    Delete(Vec<At<String>>),
}

#[derive(Clone, PartialEq, Debug)]
pub struct StatementFile {
    /// `${name}` and `:column` are bound, never spliced.
    pub statement: At<String>,
    /// Whether it is a procedure with its arguments.
    pub is_call: bool,
    /// None means the job's own database.
    pub connection: Option<At<String>>,
    /// Whether a statement that changes no row is an error.
    pub must_change: bool,
}

/// A topic; it is a template. The other texts are CEL expressions, which see the item as `row`.
#[derive(Clone, PartialEq, Debug)]
pub struct KafkaWriteFile {
    pub topic: At<String>,
    pub key: Option<At<String>>,
    /// By default the whole item.
    pub payload: Option<At<String>>,
    /// Whether a text is sent as JSON, or as it is.
    pub format: Format,
    pub headers: Vec<(At<String>, At<String>)>,
    pub timeout: Option<Duration>,
}

impl KafkaWriteFile {
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &At<String>> {
        self.key.iter().chain(&self.payload).chain(self.headers.iter().map(|(_, text)| text))
    }
}
