//! Requests of the EMR Batch Agent API.

use super::field::{BadField, Fields};
use crate::api::pool::request::{HINT_CHARS_MAX, WAIT_SECONDS_MAX};
use crate::server::BODY_BYTES_MAX;
use serde_json::Value;
use std::num::NonZeroU32;
use tidemill_domain::pool::holder::LONGEST_NAME;
use tidemill_domain::pool::{Class, Holder, ReleaseOutcome};

const PARALLEL_MAX: i64 = 1_000_000;
/// A release must not fail because its error is long: only the limit of the body counts.
const ERROR_CHARS_MAX: usize = BODY_BYTES_MAX;
const HEARTBEAT_SECONDS_MAX: i64 = 24 * 3600;

tidemill_domain::words! {
    pub enum Action {
        Acquire = "acquire",
        Release = "release",
        Status = "status",
    }
}

/// A valid request. Its pool may not exist.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    Acquire(Box<Acquire>),
    Release(Release),
    /// Of one pool, or of all.
    Status(Option<PoolKey>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acquire {
    pub pool: PoolKey,
    pub holder: Holder,
    pub table_name: Option<String>,
    /// Number of connections that the batch opens.
    pub parallel_hint: Option<NonZeroU32>,
    /// From the request or from the batch spec.
    pub hint: Option<String>,
    /// From the batch spec.
    pub partitions: Option<NonZeroU32>,
    pub class: Class,
    /// Defaults to the minimum of the pool.
    pub min_parallel: Option<NonZeroU32>,
    pub wait_seconds: u32,
    /// Interval of heartbeats; none if the holder sends none.
    pub heartbeat_seconds: Option<u32>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Release {
    pub pool: PoolKey,
    pub holder: Holder,
    /// Epoch of the lease; none for any.
    pub epoch: Option<i64>,
    pub outcome: Option<ReleaseOutcome>,
    /// The error of the batch.
    pub error: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PoolKey {
    Name(String),
    /// The external id of the pool.
    SrcDbId(i64),
}

impl Request {
    /// Reads a request. `route` is the action of its route; without one, the field `action` names it.
    pub fn read(request: &Value, route: Option<Action>) -> Result<Self, BadField> {
        let fields = Fields::of(request)?;
        let action = match (fields.word("action", Action::NAMES)?, route) {
            (Some(action), Some(route)) if action != route => {
                return Err(fields.bad("action", "it does not match the path"));
            }
            (_, Some(action)) | (Some(action), None) => action,
            (None, None) => return Err(fields.bad("action", "it is missing; use acquire, release or status")),
        };
        let spec = Spec::read(&fields)?;
        match action {
            Action::Acquire => Ok(Self::Acquire(Box::new(acquire(&fields, spec)?))),
            Action::Release => Ok(Self::Release(Release {
                pool: required_pool(&fields, &spec)?,
                holder: holder(&fields)?,
                epoch: fields.number("epoch", 0..=i64::MAX)?,
                outcome: fields.word("outcome", ReleaseOutcome::NAMES)?,
                error: fields.long_text("error", ERROR_CHARS_MAX)?,
            })),
            Action::Status => Ok(Self::Status(pool(&fields, &spec)?)),
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
        class: fields.word("class", Class::NAMES)?.unwrap_or_default(),
        min_parallel,
        wait_seconds: seconds(fields, "wait_seconds", 0, WAIT_SECONDS_MAX.into())?.unwrap_or(0),
        heartbeat_seconds: seconds(fields, "heartbeat_seconds", 1, HEARTBEAT_SECONDS_MAX)?,
    })
}

/// Fields of the batch spec of the portal, under `batch_spec` or in the request itself. Fields of the request win.
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
            // In some specs, 0 means that the batch is not partitioned.
            let count = resource.number("prttCnt", 0..=PARALLEL_MAX)?;
            spec.partitions = count.and_then(|count| u32::try_from(count).ok()).and_then(NonZeroU32::new);
        }
        Ok(spec)
    }
}

fn required_pool(fields: &Fields<'_>, spec: &Spec) -> Result<PoolKey, BadField> {
    pool(fields, spec)?
        .ok_or_else(|| fields.bad("src_db_id", "it is missing; send it, or the name of a pool in `pool`"))
}

fn pool(fields: &Fields<'_>, spec: &Spec) -> Result<Option<PoolKey>, BadField> {
    let name = fields.text("pool", LONGEST_NAME)?;
    let id = fields.number("src_db_id", 0..=i64::MAX)?;
    match (name, id) {
        (Some(_), Some(_)) => Err(fields.bad("pool", "send either pool or src_db_id, not both")),
        (Some(name), None) => Ok(Some(PoolKey::Name(name))),
        (None, id) => Ok(id.or(spec.src_db_id).map(PoolKey::SrcDbId)),
    }
}

fn holder(fields: &Fields<'_>) -> Result<Holder, BadField> {
    let name = |field: &str| {
        fields.text(field, LONGEST_NAME)?.ok_or_else(|| fields.bad(field, "it is missing or empty"))
    };
    let task = fields.text("task_id", LONGEST_NAME)?.unwrap_or_default();
    // -1 for a task that is not mapped, as in Airflow.
    let map_index = fields.number("map_index", -1..=i64::from(i32::MAX))?;
    let map_index = map_index.and_then(|index| i32::try_from(index).ok()).unwrap_or(-1);
    Holder::new(&name("dag_id")?, &name("dag_run_id")?, &task, map_index)
        .map_err(|bad| fields.bad(bad.part, "it is too long"))
}

/// A degree of at least 1: a batch that opens no connection needs no pool.
fn degree(fields: &Fields<'_>, name: &str) -> Result<Option<NonZeroU32>, BadField> {
    if let Ok(Some(number)) = fields.number(name, i64::MIN..=0) {
        let why = "but must be at least 1; leave it out to use the default of the pool";
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
