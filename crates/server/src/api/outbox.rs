//! The outbox: events, failed events, attached tables, relays and statistics.

pub mod attached;
pub mod event;
pub mod failed_event;

use crate::api::{Answer, List, QueryString, Read};
use axum::Json;
use tidemill_api::Page;
use tidemill_api::outbox::{OutboxSlot, OutboxStats, Relay, ShowOutboxStats};

/// Counts stop here.
const COUNT_MAX: u32 = 10_000;

/// List the live relays, the oldest first.
#[utoipa::path(get, path = "/api/v1/outbox/relays", operation_id = "list_relays", responses((status = 200, body = Page<Relay>)))]
pub(crate) async fn relays(Read(mut tx): Read) -> List<Relay> {
    let relays = tx.outbox().relays().await?;
    Ok(Json(Page::whole(&relays)))
}

/// Show statistics of the outbox.
#[utoipa::path(get, path = "/api/v1/outbox/stats", operation_id = "get_outbox_stats", params(ShowOutboxStats), responses((status = 200, body = OutboxStats)))]
pub(crate) async fn stats(
    QueryString(query): QueryString<ShowOutboxStats>,
    Read(mut tx): Read,
) -> Answer<OutboxStats> {
    let stats = tx.outbox().stats(COUNT_MAX).await?;
    let attached = tx.outbox().attached_stats(COUNT_MAX).await?;
    let mut view = OutboxStats::from((&stats, attached.as_slice()));
    if query.slots {
        view.slots = OutboxSlot::all(&stats);
    }
    Ok(Json(view))
}

/// The object of changes to events of this topic, for scopes; `outbox/*` if the topic is unknown.
pub(crate) fn object(topic: Option<&str>) -> String {
    format!("outbox/{}", topic.unwrap_or("*"))
}
