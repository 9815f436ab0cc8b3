//! What the document's clients ask.

use super::field::{BadField, Fields};
use crate::api::pool::request::{HINT_CHARS_MAX, WAIT_SECONDS_MAX};
use serde_json::Value;
use std::num::NonZeroU32;
use tidemill_domain::pool::Class;
use tidemill_domain::pool::holder::LONGEST_NAME;

/// Largest degree that is taken for one.
const PARALLEL_MAX: i64 = 1_000_000;
/// Longest time between two heartbeats, in seconds: a day.
const HEARTBEAT_SECONDS_MAX: i64 = 24 * 3600;

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Take units, or wait for them.
    Acquire,
    Release,
    /// Tell how the pools stand.
    Status,
}

const ACTIONS: [(&str, Action); 3] =
    [("acquire", Action::Acquire), ("release", Action::Release), ("status", Action::Status)];

/// A request that makes sense by itself. Whether the pool exists is another question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Take units, or wait for them.
    Acquire(Box<Acquire>),
    Release(Release),
    /// Tell how the pools stand.
    Status(Status),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acquire {
    pub pool: PoolKey,
    pub holder: Holder,
    /// What is read with them.
    pub table_name: Option<String>,
    /// How many connections the batch opens, if the request says so itself.
    pub parallel_hint: Option<NonZeroU32>,
    /// The hint of its statement, from the request or from the batch spec.
    pub hint: Option<String>,
    /// In how many partitions the batch reads, by its batch spec.
    pub partitions: Option<NonZeroU32>,
    pub class: Class,
    /// With how many it could do; none for what the pool says.
    pub min_parallel: Option<NonZeroU32>,
    /// How long the answer may be held back until there are units.
    pub wait_seconds: u32,
    /// How often the holder means to be heard of; none if it will not.
    pub heartbeat_seconds: Option<u32>,
}

/// Somebody gives units back, or no longer waits for them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Release {
    pub pool: PoolKey,
    pub holder: Holder,
    /// The epoch of the grant that is given back; none for whichever there is.
    pub epoch: Option<i64>,
    /// How the batch has ended.
    pub outcome: Option<Outcome>,
}

/// Somebody asks how the pools stand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// Only this one.
    pub pool: Option<PoolKey>,
}

/// A pool as a caller names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PoolKey {
    /// By its name with us.
    Name(String),
    /// By the number of the source database.
    SrcDbId(i64),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// The DAG. Two DAGs may have runs of the same name.
    pub dag_id: String,
    pub dag_run_id: String,
    /// The task of the run, if one run has several holders.
    pub task_id: Option<String>,
    /// Which of a mapped task; Airflow says -1 for one that is not mapped, as do we when nothing is said.
    pub map_index: i32,
}

/// How a batch has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Completed,
    /// Not well.
    Failed,
}

const OUTCOMES: [(&str, Outcome); 2] = [("completed", Outcome::Completed), ("failed", Outcome::Failed)];

impl Request {
    /// Reads a request. `asked` is the action that its address stands for; without one the field `action` tells.
    pub fn read(request: &Value, asked: Option<Action>) -> Result<Self, BadField> {
        let fields = Fields::of(request)?;
        let action = match (fields.word("action", &ACTIONS)?, asked) {
            (Some(said), Some(asked)) if said != asked => {
                return Err(fields.bad("action", "it is another than that of the address"));
            }
            (_, Some(action)) | (Some(action), None) => action,
            (None, None) => return Err(fields.bad("action", "it is missing; say acquire, release or status")),
        };
        let spec = Spec::read(&fields)?;
        match action {
            Action::Acquire => Ok(Self::Acquire(Box::new(acquire(&fields, spec)?))),
            Action::Release => Ok(Self::Release(Release {
                pool: required_pool(&fields, &spec)?,
                holder: holder(&fields)?,
                epoch: fields.number("epoch", 0..=i64::MAX)?,
                outcome: fields.word("outcome", &OUTCOMES)?,
            })),
            Action::Status => Ok(Self::Status(Status { pool: pool(&fields, &spec)? })),
        }
    }
}

fn acquire(fields: &Fields<'_>, spec: Spec) -> Result<Acquire, BadField> {
    let parallel_hint = degree(fields, "parallel_hint")?;
    let min_parallel = degree(fields, "min_parallel")?;
    if let (Some(degree), Some(least)) = (parallel_hint, min_parallel)
        && least > degree
    {
        return Err(fields.bad("min_parallel", "it is larger than parallel_hint"));
    }
    Ok(Acquire {
        pool: required_pool(fields, &spec)?,
        holder: holder(fields)?,
        table_name: fields.text("table_name", LONGEST_NAME)?.or(spec.table_name),
        parallel_hint,
        hint: fields.long_text("hint", HINT_CHARS_MAX)?.or(spec.hint),
        partitions: spec.partitions,
        class: fields.word("class", &Class::ALL.map(|class| (class.as_str(), class)))?.unwrap_or_default(),
        min_parallel,
        wait_seconds: seconds(fields, "wait_seconds", 0, WAIT_SECONDS_MAX.into())?.unwrap_or(0),
        heartbeat_seconds: seconds(fields, "heartbeat_seconds", 1, HEARTBEAT_SECONDS_MAX)?,
    })
}

/// What the batch spec of the portal says, under `batch_spec` or in the request itself. What the request says comes
/// first.
#[derive(Debug)]
struct Spec {
    src_db_id: Option<i64>,
    table_name: Option<String>,
    hint: Option<String>,
    partitions: Option<NonZeroU32>,
}

impl Spec {
    fn read(fields: &Fields<'_>) -> Result<Self, BadField> {
        let around = fields.object("batch_spec")?.unwrap_or_else(|| fields.clone());
        let (meta, resource) = (around.object("athenaMetaData")?, around.object("rsrcSpecData")?);
        let mut spec = Self { src_db_id: None, table_name: None, hint: None, partitions: None };
        if let Some(meta) = meta {
            spec.src_db_id = meta.number("srcDbId", 0..=i64::MAX)?;
            spec.table_name = meta.text("tableName", LONGEST_NAME)?;
        }
        if let Some(resource) = resource {
            spec.hint = resource.long_text("hint", HINT_CHARS_MAX)?;
            // None at all is how some specs say that the batch is not partitioned.
            let count = resource.number("prttCnt", 0..=PARALLEL_MAX)?;
            spec.partitions = count.and_then(|count| u32::try_from(count).ok()).and_then(NonZeroU32::new);
        }
        Ok(spec)
    }
}

fn required_pool(fields: &Fields<'_>, spec: &Spec) -> Result<PoolKey, BadField> {
    pool(fields, spec)?.ok_or_else(|| fields.bad("src_db_id", "it is missing; say it, or the name of a pool"))
}

fn pool(fields: &Fields<'_>, spec: &Spec) -> Result<Option<PoolKey>, BadField> {
    let name = fields.text("pool", LONGEST_NAME)?;
    let id = fields.number("src_db_id", 0..=i64::MAX)?;
    match (name, id) {
        (Some(_), Some(_)) => Err(fields.bad("pool", "it stands beside src_db_id; say one of them")),
        (Some(name), None) => Ok(Some(PoolKey::Name(name))),
        (None, id) => Ok(id.or(spec.src_db_id).map(PoolKey::SrcDbId)),
    }
}

fn holder(fields: &Fields<'_>) -> Result<Holder, BadField> {
    let name = |field: &str| {
        fields.text(field, LONGEST_NAME)?.ok_or_else(|| fields.bad(field, "it is missing or empty"))
    };
    let map_index = fields.number("map_index", -1..=i64::from(i32::MAX))?;
    Ok(Holder {
        dag_id: name("dag_id")?,
        dag_run_id: name("dag_run_id")?,
        task_id: fields.text("task_id", LONGEST_NAME)?,
        map_index: map_index.and_then(|index| i32::try_from(index).ok()).unwrap_or(-1),
    })
}

/// How parallel. None at all cannot be asked for: a batch that opens no connection needs no pool.
fn degree(fields: &Fields<'_>, name: &str) -> Result<Option<NonZeroU32>, BadField> {
    if let Ok(Some(number)) = fields.number(name, i64::MIN..=0) {
        let why = "and at least 1 connection is needed; leave it out for what the pool says";
        return Err(fields.bad(name, format!("it is {number}, {why}")));
    }
    let degree = fields.number(name, 1..=PARALLEL_MAX)?;
    Ok(degree.and_then(|degree| u32::try_from(degree).ok()).and_then(NonZeroU32::new))
}

fn seconds(fields: &Fields<'_>, name: &str, least: i64, most: i64) -> Result<Option<u32>, BadField> {
    Ok(fields.number(name, least..=most)?.and_then(|seconds| u32::try_from(seconds).ok()))
}

#[cfg(test)]
mod tests;
