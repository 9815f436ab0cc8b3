//! The statement that saves a chunk, alone or together with rows of a table and events.

use crate::codec::DbStamp;
use crate::item::StagedRows;
use crate::job::Staged;
use crate::job::chunk::{ChunkPlace, ChunkSave, SavedRows};
use crate::outbox::event::{bind_events, insert_of_arrays};
use crate::statement::{Make, arguments, run_on_postgres};
use sqlx::{AssertSqlSafe, PgConnection};
use std::fmt::Write as _;
use std::sync::Arc;
use tidemill_domain::job::{StepExecutionId, context};

/// The first places after those of the chunk itself.
const FIRST_OF_EVENTS: usize = 21;
pub(crate) const FIRST_OF_ROWS: usize = 28;

/// The text of the statement changes each time that the number of chunks has grown by this factor.
const GROWTH: u64 = 8;

/// The fence (a lock on the lease that a take-over has to wait for), the counters, the context, and what follows.
macro_rules! save {
    ($($rest:literal)?) => {
        concat!(
            "with fence as materialized (
                 select 1
                 from tidemill_lease
                 where kind = $1
                   and name = $2
                   and owner = $3
                   and epoch = $4
                 for key share
             ), step as (
                 update batch_step_execution s
                 set version = s.version + 1, status = 'STARTED', commit_count = $7, read_count = $8,
                     filter_count = $9, write_count = $10, read_skip_count = $11, write_skip_count = $12,
                     process_skip_count = $13, rollback_count = $14,
                     last_updated = coalesce($15, clock_timestamp() at time zone 'UTC')
                 from fence
                 where s.ctid = coalesce($18::text::tid,
                     (select ctid from batch_step_execution where step_execution_id = $5))
                   and s.step_execution_id = $5
                   and s.job_execution_id = $6
                   and ($20::bigint is null or s.version = $20)
                 returning s.version, s.ctid as place
             ), context as (
                 update batch_step_execution_context c
                 set short_context = $16, serialized_context = $17
                 from fence
                 where c.ctid = coalesce($19::text::tid,
                     (select ctid from batch_step_execution_context where step_execution_id = $5))
                   and c.step_execution_id = $5
                   and $16::text is not null
                 returning c.ctid as place
             )"
            $(, $rest)?
        )
    };
}

const SAVE: &str = save!();

/// Also returns whether it must stop, and the places. No row if the lease has moved on: then nothing was written.
const SAVE_ALONE: &str = save!(
    "
     select step.version, coalesce(e.status not in ('STARTING', 'STARTED'), false) as stop_requested,
            step.place::text as step_place, context.place::text as context_place,
            $16::text is null or context.place is not null as is_whole
     from step
     join batch_job_execution e on e.job_execution_id = $6
     left join context on true"
);

/// The same, but an error if anything is missing, which also undoes what the statement has written.
const WHOLE_OR_NOTHING: &str =
    "select step.version, coalesce(e.status not in ('STARTING', 'STARTED'), false) as stop_requested,
            step.place::text as step_place, context.place::text as context_place,
            1 / case when step.version is null or $16::text is not null and context.place is null
                then 0 else 1 end = 1 as is_whole
     from (select 1) as chunk
     left join step on true
     left join context on true
     left join batch_job_execution e on e.job_execution_id = $6";

/// The statement that saved the last chunk.
#[derive(Clone, Debug)]
pub(crate) struct ChunkText {
    /// The statement of the rows that are a part of it.
    insert: Option<Arc<str>>,
    has_events: bool,
    growth: u32,
    whole: Arc<str>,
}

/// Saves a chunk in one round trip, with the rows and events if there are any.
pub(crate) async fn save_chunk(
    connection: &mut PgConnection,
    chunk: &ChunkSave<'_>,
    place: &mut ChunkPlace,
    now: Option<DbStamp>,
    staged: Option<&Staged>,
) -> Result<Option<SavedRows>, sqlx::Error> {
    let mut arguments = arguments!(
        PgArguments,
        chunk.lease.kind(),
        chunk.lease.name(),
        chunk.fence.owner,
        chunk.fence.epoch,
        chunk.step,
        chunk.execution,
        chunk.counters.commit,
        chunk.counters.read,
        chunk.counters.filter,
        chunk.counters.write,
        chunk.counters.read_skip,
        chunk.counters.write_skip,
        chunk.counters.process_skip,
        chunk.counters.rollback,
        now,
        chunk.context.map(|text| context::columns(text).0),
        chunk.context.and_then(|text| context::columns(text).1),
        place.step.as_deref(),
        place.context.as_deref(),
        place.version
    );
    if let Some(staged) = staged {
        // Without events their places are bound too, because rows have fixed places.
        bind_events(&mut arguments, &staged.events).map_err(sqlx::Error::Encode)?;
        if let Some(rows) = &staged.rows {
            rows.bind_after(&mut arguments)?;
        }
    }
    let text = AssertSqlSafe(text(place, chunk.step, staged));
    Option::make(run_on_postgres(connection, text, arguments, true).await?)
}

/// The statement for a chunk of this step.
///
/// PostgreSQL keeps the plan that it has made for a text. While a table has few pages, it plans to read all of them,
/// even if the place of the row is known, and the old versions make that slower with each chunk. So the text changes
/// when there are many more chunks than before.
fn text(place: &mut ChunkPlace, step: StepExecutionId, staged: Option<&Staged>) -> Arc<str> {
    let insert = staged.and_then(|staged| staged.rows.as_ref()).map(StagedRows::text);
    let has_events = staged.is_some_and(|staged| !staged.events.is_empty());
    let growth = place.chunks.checked_ilog(GROWTH).unwrap_or(0).saturating_sub(1);
    match &place.text {
        Some(text)
            if text.growth == growth
                && text.has_events == has_events
                && is_same(text.insert.as_ref(), insert) =>
        {
            text.whole.clone()
        }
        _ => {
            let mut whole = match staged {
                Some(_) => whole_or_nothing(insert, has_events),
                None => SAVE_ALONE.to_owned(),
            };
            if growth > 0 {
                let _infallible = write!(whole, "\n-- step execution {step}, growth {growth}");
            }
            let whole = Arc::<str>::from(whole);
            place.text =
                Some(ChunkText { insert: insert.cloned(), has_events, growth, whole: whole.clone() });
            whole
        }
    }
}

/// Events are numbered after the rows are written, and so locked: then the events of one aggregate are in the order in which
/// things happened.
fn whole_or_nothing(insert: Option<&Arc<str>>, has_events: bool) -> String {
    let rows = insert.map(|insert| {
        let counted = if has_events { "\nreturning 1" } else { "" };
        format!(", written as (\n{insert}{counted}\n)")
    });
    let events = has_events.then(|| {
        let after = if rows.is_some() { "\nwhere (select count(*) from written) >= 0" } else { "" };
        let insert = insert_of_arrays(FIRST_OF_EVENTS, "$15 at time zone 'UTC'");
        format!(", published as (\n{insert}{after}\n)")
    });
    format!("{SAVE}{}{}\n{WHOLE_OR_NOTHING}", rows.unwrap_or_default(), events.unwrap_or_default())
}

fn is_same(one: Option<&Arc<str>>, other: Option<&Arc<str>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}
