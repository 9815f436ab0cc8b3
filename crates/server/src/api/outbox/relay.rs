//! The relays that publish.

use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::State as Given;
use serde::Serialize;
use tidemill_store::outbox::RelayDetail;
use utoipa::ToSchema;

/// A relay whose lease is good.
#[derive(Debug, Serialize, ToSchema)]
pub struct Relay {
    /// Its id, which no other relay ever has.
    id: String,
    /// The name of its process.
    name: String,
    /// Host that it runs on.
    host: String,
    /// Operating-system process id on that host.
    pid: u32,
    /// The process that it runs in.
    process: String,
    /// Where it publishes.
    sink: String,
    /// Which of a fixed number of relays it is, such as `0/3`; none where relays share fairly.
    instance: Option<String>,
    /// How many of the 256 slots it has.
    slots: usize,
    /// How many events it has published since it joined.
    published: u64,
    /// Events per second since it joined.
    published_per_second: Option<f64>,
    /// How often it asked for events, by a look or a read.
    polls: u64,
    /// How often there were none.
    empty_polls: u64,
    /// Which part of the polls that is; null when it has not asked yet.
    empty_poll_ratio: Option<f64>,
    /// Statements by which it looked, read and acknowledged.
    queries: u64,
    /// The same for 10,000 events; null when it has published none.
    queries_per_10000_events: Option<f64>,
    /// Since when it is there.
    joined_at: String,
    /// When its lease passes, if it is not renewed.
    until: String,
}

/// The relays.
#[derive(Debug, Serialize, ToSchema)]
pub struct Relays {
    /// The eldest first.
    items: Vec<Relay>,
}

impl From<RelayDetail> for Relay {
    fn from(detail: RelayDetail) -> Self {
        let (tally, published_per_second) = (detail.tally, detail.published_per_second());
        let relay = detail.relay;
        Self {
            id: relay.id.to_string(),
            name: relay.name,
            host: relay.host,
            pid: relay.pid,
            process: detail.process.to_string(),
            sink: detail.sink,
            instance: relay.instance.map(|instance| instance.to_string()),
            slots: relay.slots,
            published: tally.published,
            published_per_second,
            polls: tally.effort.polls,
            empty_polls: tally.effort.empty_polls,
            empty_poll_ratio: tally.empty_poll_ratio(),
            queries: tally.effort.queries,
            queries_per_10000_events: tally.queries_per_10000_events(),
            joined_at: relay.joined_at.to_string(),
            until: detail.until.to_string(),
        }
    }
}

/// The relays that publish, with their slots.
#[utoipa::path(get, path = "/api/v1/outbox/relays", responses((status = 200, body = Relays)))]
pub(crate) async fn list(Given(state): Given<State>) -> Result<Json<Relays>, Problem> {
    let mut tx = state.read().await?;
    let relays = tx.outbox().relays().await?;
    Ok(Json(Relays { items: relays.into_iter().map(Relay::from).collect() }))
}
