//! Who holds units of a pool, and who waits for them.

use super::{find, named, unknown};
use crate::api::{QueryString, limit};
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Given};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use tidemill_domain::pool::estimate::Estimate;
use tidemill_domain::pool::pass::standing;
use tidemill_domain::pool::{Holder, Reason, State as TicketState, Ticket};
use tidemill_store::pool::TicketRecord;
use utoipa::{IntoParams, ToSchema};

/// What to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListTickets {
    /// At most so many; 50 when not given, 500 at most.
    limit: Option<u32>,
}

/// Whose units they are: one task of one run.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolHolder {
    /// The DAG, the job, or whatever runs again and again.
    pub(super) dag_id: String,
    /// One run of it.
    pub(super) run_id: String,
    /// The task within the run; empty for the whole run.
    #[serde(default)]
    pub(super) task: String,
    /// Which of the mapped tasks; -1 when it is not mapped.
    #[serde(default = "unmapped")]
    pub(super) map_index: i32,
}

fn unmapped() -> i32 {
    -1
}

impl From<&Holder> for PoolHolder {
    fn from(holder: &Holder) -> Self {
        Self {
            dag_id: holder.dag_id().to_owned(),
            run_id: holder.run_id().to_owned(),
            task: holder.task().to_owned(),
            map_index: holder.map_index(),
        }
    }
}

/// A lease of units of a pool, or a place in its queue.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PoolLease {
    /// Its id.
    id: String,
    /// The pool.
    pool: String,
    /// `waiting`, `granted`, `running`, `suspect`, `released`, `expired` or `cancelled`.
    state: String,
    /// Whose it is.
    holder: PoolHolder,
    /// `critical`, `normal` or `bulk`.
    class: String,
    /// The degree that was asked for.
    asked: u32,
    /// The least that would do.
    least: u32,
    /// The degree that was granted.
    parallel: Option<u32>,
    /// The units that it takes, or took.
    units: u64,
    /// Grows with every attempt of its holder.
    epoch: i64,
    /// The table that it reads.
    table: String,
    /// When it came.
    enqueued_at: String,
    /// When it got its units.
    granted_at: Option<String>,
    /// When its time is over, unless its holder is heard of.
    expires_at: Option<String>,
    /// When it ended.
    ended_at: Option<String>,
    /// And how.
    ending: Option<String>,
}

impl From<&TicketRecord> for PoolLease {
    fn from(record: &TicketRecord) -> Self {
        let ticket = &record.ticket;
        let text = |at: Option<tidemill_domain::time::Timestamp>| at.map(|at| at.to_string());
        Self {
            id: ticket.id.to_string(),
            pool: record.pool.to_string(),
            state: ticket.state.as_str().to_owned(),
            holder: (&ticket.holder).into(),
            class: ticket.class.as_str().to_owned(),
            asked: ticket.asked.get(),
            least: ticket.least.get(),
            parallel: ticket.granted.map(std::num::NonZeroU32::get),
            units: record.units,
            epoch: ticket.epoch.get(),
            table: ticket.table.clone(),
            enqueued_at: ticket.enqueued_at.to_string(),
            granted_at: text(ticket.granted_at),
            expires_at: text(record.expires_at),
            ended_at: text(record.ended_at),
            ending: record.ending.clone(),
        }
    }
}

/// A list of holders.
#[derive(Debug, Serialize, ToSchema)]
pub struct PoolHolders {
    /// The oldest first.
    items: Vec<PoolLease>,
}

/// A place in the queue.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PoolPlace {
    /// Its place, from 1.
    position: u32,
    /// The ticket.
    id: String,
    /// Whose it is.
    holder: PoolHolder,
    /// `critical`, `normal` or `bulk`.
    class: String,
    /// The units that it wants.
    units: u64,
    /// The degree that was asked for.
    asked: u32,
    /// The least that would do.
    least: u32,
    /// Since when it waits.
    since: String,
    /// Why it waits.
    reason: String,
    /// The same in a sentence.
    message: String,
    /// In how many seconds it is likely to start.
    eta_seconds: Option<u64>,
    /// In how many seconds it has started in nine of ten cases.
    eta_p90_seconds: Option<u64>,
}

/// A queue.
#[derive(Debug, Serialize, ToSchema)]
pub struct PoolQueue {
    /// The first comes first.
    items: Vec<PoolPlace>,
}

/// Who holds units of a pool.
#[utoipa::path(get, path = "/api/v1/pools/{name}/holders", params(("name" = String, Path, description = "Its name"), ListTickets), responses((status = 200, body = PoolHolders), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn holders(
    Given(state): Given<State>,
    Path(name): Path<String>,
    QueryString(asked): QueryString<ListTickets>,
) -> Result<Json<PoolHolders>, Problem> {
    let (name, limit) = (named(&name)?, limit(asked.limit)?);
    let held = [TicketState::Granted, TicketState::Running, TicketState::Suspect];
    let mut tx = state.read().await?;
    find(&mut tx, &name).await?;
    let records = tx.pools().tickets(&name, &held, limit).await?;
    Ok(Json(PoolHolders { items: records.iter().map(PoolLease::from).collect() }))
}

/// Who waits for units of a pool, and why.
#[utoipa::path(get, path = "/api/v1/pools/{name}/queue", params(("name" = String, Path, description = "Its name"), ListTickets), responses((status = 200, body = PoolQueue), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn queue(
    Given(state): Given<State>,
    Path(name): Path<String>,
    QueryString(asked): QueryString<ListTickets>,
) -> Result<Json<PoolQueue>, Problem> {
    let (name, limit) = (named(&name)?, limit(asked.limit)?);
    let mut tx = state.read().await?;
    let ledger = tx.pools().ledger(&name).await?.ok_or_else(|| unknown(name.as_str()))?;
    let now = tx.now().await?;
    let tickets: HashMap<_, &Ticket> = ledger.tickets().map(|ticket| (ticket.id, ticket)).collect();
    let places = (1..).zip(standing(&ledger, now)).take(limit as usize);
    let items = places.filter_map(|(position, (id, reason, estimate))| {
        tickets.get(&id).map(|ticket| place(position, ticket, reason, estimate))
    });
    Ok(Json(PoolQueue { items: items.collect() }))
}

fn place(position: u32, ticket: &Ticket, reason: Reason, estimate: Option<Estimate>) -> PoolPlace {
    PoolPlace {
        position,
        id: ticket.id.to_string(),
        holder: (&ticket.holder).into(),
        class: ticket.class.as_str().to_owned(),
        units: ticket.wanted(),
        asked: ticket.upgrade.map_or(ticket.asked, |upgrade| upgrade.parallel).get(),
        least: ticket.least.get(),
        since: ticket.queued_since().to_string(),
        reason: reason.as_str().to_owned(),
        message: reason.sentence().to_owned(),
        eta_seconds: estimate.map(|estimate| estimate.p50.as_secs()),
        eta_p90_seconds: estimate.map(|estimate| estimate.p90.as_secs()),
    }
}
