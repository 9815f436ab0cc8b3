//! The renders on the overview: each number links to the renders that it counts.

use crate::dashboard::part::{Health, count_text, count_up_to, state as state_word};
use crate::dashboard::{Audience, Page, Region};
use crate::state::State;
use maud::{Markup, html};
use tidemill_domain::render::Status;
use tidemill_engine::render::gauge::WORKER_SEEN_WITHIN;
use tidemill_store::render::list::COUNTED_MAX;
use tidemill_store::render::{RenderCounts, WorkerState};
use tidemill_store::{StoreError, Tx};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Renders {
    /// In the last 24 hours.
    failed: u64,
    late: u64,
    workers: usize,
    /// Those that take renders.
    working: usize,
}

impl Renders {
    pub(crate) async fn read(tx: &mut Tx) -> Result<Self, StoreError> {
        let metrics = tx.renders().metrics().await?;
        let workers = tx.renders().workers(WORKER_SEEN_WITHIN).await?;
        let working = workers.iter().filter(|worker| worker.state == WorkerState::Working).count();
        Ok(Self { failed: metrics.failed, late: metrics.late, workers: workers.len(), working })
    }
}

pub(super) fn region(state: &State, counts: &RenderCounts, renders: Renders) -> Region {
    let count = |is_it: fn(Status) -> bool| {
        let of_them = counts.by_status.iter().filter(|(status, _)| is_it(**status));
        count_up_to(COUNTED_MAX.into(), of_them.map(|(_, count)| count).sum())
    };
    let line = |path: &str, word: &str, value: Markup| {
        html! { dt { (word) } dd { a href=(state.path(path)) { (value) } } }
    };
    let number = |count: u64, health: Health| match count {
        0 => html! { "0" },
        count => state_word(health, &count.to_string()),
    };
    let waiting = count(|status| status == Status::Pending);
    let health = match (renders.workers, renders.working) {
        // A person, and no worker, is needed for what waits for approval.
        (0, _) if counts.waiting_for_worker() > 0 => Health::Bad,
        (0, _) => Health::Idle,
        (_, 0) => Health::Warn,
        _ => Health::Ok,
    };
    let workers = match renders.workers {
        0 => "none".to_owned(),
        all if all == renders.working => all.to_string(),
        all => format!("{} of {all} take renders", renders.working),
    };
    let markup = html! {
        div.body data-live="renders" {
            dl {
                (line("/render?status=pending", "Waiting", html! { (count_text(waiting)) }))
                @if counts.awaiting_approval > 0 {
                    (line("/render?status=pending", "Waiting for approval", number(counts.awaiting_approval, Health::Warn)))
                }
                (line("/render?show=active", "Active", html! { (count_text(count(Status::is_active))) }))
                (line("/render?show=failed_24h", "Failed in 24 h", number(renders.failed, Health::Bad)))
                (line("/render?show=late", "Late", number(renders.late, Health::Bad)))
                (line("/render/workers", "Workers", state_word(health, &workers)))
            }
        }
    };
    Region::whole("renders", Audience::On(&[Page::Overview]), markup)
}
