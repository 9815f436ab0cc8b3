//! The numbers at the top. Each links to the list that it counts.

use super::outbox::Outbox;
use crate::dashboard::instant::Times;
use crate::dashboard::part::{Count, Health, tile};
use crate::dashboard::region::{Audience, Page, Region};
use crate::state::State;
use maud::html;
use tidemill_domain::render::Status;
use tidemill_store::job::ExecutionTally;
use tidemill_store::job::list::COUNTED_MAX;
use tidemill_store::render::RenderCounts;
use tidemill_store::render::list::COUNTED_MAX as RENDERS_COUNTED_MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Counts<'a> {
    pub(super) executions: ExecutionTally,
    pub(super) outbox: &'a Outbox,
    pub(super) renders: &'a RenderCounts,
}

pub(super) fn region(state: &State, counts: &Counts<'_>, times: &Times) -> Region {
    let ExecutionTally { running, failed } = counts.executions;
    let executions = |count: u64| Count::up_to(u64::try_from(COUNTED_MAX).unwrap_or(u64::MAX), count);
    let waiting = counts.renders.by_status.get(&Status::Pending).copied().unwrap_or(0);
    let waiting = Count::up_to(RENDERS_COUNTED_MAX.into(), waiting);
    let is_any = |count: Count, health: Health| if count.is_zero() { Health::Idle } else { health };
    let (running, failed) = (executions(running), executions(failed));
    let failing = if failed.is_zero() { Health::Ok } else { Health::Bad };
    let outbox = counts.outbox;
    let markup = html! {
        div.tiles data-live="tiles" {
            (tile(&state.path("/executions?status=running"), &html! { (running) }, is_any(running, Health::Ok), "executions running"))
            (tile(&state.path("/executions?status=FAILED"), &html! { (failed) }, failing, "failed in 24 h"))
            (tile(&state.path("/outbox"), &outbox.lag(times), outbox.health(times.now()), "oldest unpublished event"))
            (tile(&state.path("/render"), &html! { (waiting) }, is_any(waiting, Health::Ok), "renders waiting"))
        }
    };
    Region::whole("tiles", Audience::On(&[Page::Overview]), markup)
}
