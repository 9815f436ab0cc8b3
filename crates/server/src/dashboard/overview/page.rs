//! The overview page and its live regions.

use super::{attention, outbox, pool, process, render};
use crate::api::status::Totals;
use crate::dashboard::part::{Health, command, count_text, count_up_to, panel, plain_panel, table, tile};
use crate::dashboard::pool::graph::Past;
use crate::dashboard::region::show;
use crate::dashboard::{
    Audience, Frame, Page, PageContext, PageResult, PageSnapshot, Region, Section, Times, action, audit,
};
use crate::state::State;
use maud::{Markup, html};
use tidemill_domain::audit::AuditRecord;
use tidemill_domain::outbox::Count;
use tidemill_domain::pool::PoolName;
use tidemill_store::StoreError;
use tidemill_store::audit::AuditFilter;
use tidemill_store::job::Failure;
use tidemill_store::job::list::COUNTED_MAX;
use tidemill_store::migration::MigrationStatus;
use tidemill_store::pool::PoolEventSummary;
use tidemill_store::render::list::COUNTED_MAX as RENDERS_COUNTED_MAX;

const EVENTS: u32 = 20;

/// Number of recent decisions about pools.
const POOL_EVENTS: u32 = 10;

/// How many failed executions are searched for those that were never restarted.
const FAILURES_AMONG: u32 = 50;

#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) common: PageSnapshot,
    pub(super) totals: Totals,
    events: Vec<AuditRecord>,
    pub(super) failures: Vec<Failure>,
    has_jobs: bool,
    pool_events: Vec<PoolEventSummary>,
    busiest: Option<(PoolName, Past)>,
    renders: render::Renders,
    migrations: Vec<MigrationStatus>,
}

impl Snapshot {
    pub(crate) async fn read(state: &State) -> Result<Self, StoreError> {
        let (common, mut tx) = PageSnapshot::read(state).await?;
        let totals = Totals::read(&mut tx).await?;
        let snapshot = Self {
            events: tx.audit().entries(&AuditFilter::default(), EVENTS).await?,
            failures: tx.jobs().open_failures(FAILURES_AMONG).await?,
            has_jobs: !tx.jobs().list(1).await?.is_empty(),
            pool_events: tx.pools().events(None, POOL_EVENTS).await?,
            busiest: pool::busiest(&mut tx, &totals.pools, common.now).await?,
            renders: render::Renders::read(&mut tx).await?,
            totals,
            migrations: Vec::new(),
            common,
        };
        drop(tx);
        let migrations = state.store().migration_status().await?;
        Ok(Self { migrations, ..snapshot })
    }
}

/// The live regions. The page is made of the same.
pub(crate) fn regions(state: &State, snapshot: &Snapshot, times: &Times) -> Vec<Region> {
    let Snapshot { common, totals, .. } = snapshot;
    let no_events = html! { "No events yet. Try " (command("tidemill demo")) };
    let mut regions = vec![
        welcome(snapshot),
        tiles(state, totals, times),
        attention::region(state, snapshot, times),
        pool::region(state, &totals.pools),
        pool::graph_region(state, snapshot.busiest.as_ref(), times),
        pool::event_region(&snapshot.pool_events, times),
        outbox::region(&totals.outbox, times),
        render::region(state, &totals.renders, snapshot.renders),
        audit::region(&snapshot.events, Audience::On(&[Page::Overview]), &no_events, times),
        process::region(common, state.inner().parts.process.id(), times),
        process::leases(common, times),
        process::database(state, common, &snapshot.migrations),
    ];
    regions.extend(action::region(state));
    regions
}

fn content(visit: &PageContext, regions: &[Region]) -> Markup {
    let live = |name: &str| show(regions, name);
    let last = html! { span.soft { "The last " (EVENTS) ", newest first." } };
    let all = |path: &str| html! { a href=(visit.state.path(path)) { "All" } };
    let pools = html! {
        (table("Pools", pool::COLUMNS, &live("pools")))
        (live("pool-graph"))
        h3 { "Recent events of pools" }
        (table("Recent events of pools", pool::EVENT_COLUMNS, &live("pool-events")))
    };
    html! {
        h1 { "Overview" }
        (live("welcome"))
        (live("tiles"))
        (action::panel_of(visit, &live("action")))
        (plain_panel("attention", "Needs attention", &table("Needs attention", attention::COLUMNS, &live("attention"))))
        (panel("pools", "Pools", &all("/pools"), &pools))
        div.columns {
            (panel("outbox", "Outbox", &all("/outbox"), &live("outbox")))
            (panel("render", "Renders", &all("/render"), &live("renders")))
        }
        (panel("events", "Recent events", &last, &table("Recent events", audit::COLUMNS, &live("events"))))
        (plain_panel("processes", "Processes", &table("Processes", process::COLUMNS, &live("processes"))))
        (plain_panel("leases", "Leases", &table("Leases", process::LEASE_COLUMNS, &live("leases"))))
        (plain_panel("database", "Database", &live("database")))
    }
}

/// The first steps, on an installation that was never used.
fn welcome(snapshot: &Snapshot) -> Region {
    let Snapshot { has_jobs, totals, .. } = snapshot;
    let is_new = !has_jobs && totals.pools.is_empty() && totals.renders.by_status.is_empty();
    let markup = html! {
        div data-live="welcome" {
            @if is_new {
                div.banner {
                    p { "Nothing has run yet. Try the demo: " (command("tidemill demo")) }
                    p { "Or run your own job: " (command("tidemill job run FILE")) }
                }
            }
        }
    };
    Region::whole("welcome", Audience::On(&[Page::Overview]), markup)
}

/// The numbers at the top. Each links to the list that it counts.
fn tiles(state: &State, totals: &Totals, times: &Times) -> Region {
    let executions = |count| count_up_to(u64::try_from(COUNTED_MAX).unwrap_or(u64::MAX), count);
    let (running, failed) = (executions(totals.executions.running), executions(totals.executions.failed));
    let waiting = count_up_to(RENDERS_COUNTED_MAX.into(), totals.renders.waiting_for_worker());
    let health =
        |count: Count, none: Health, any: Health| if count == Count::Exactly(0) { none } else { any };
    let counted = |path: &str, count: Count, health: Health, label: &str| {
        tile(&state.path(path), &html! { (count_text(count)) }, health, label)
    };
    let outbox = &totals.outbox;
    let markup = html! {
        div.tiles data-live="tiles" {
            (counted("/executions?status=running", running, health(running, Health::Idle, Health::Ok), "executions running"))
            (counted("/executions?status=FAILED", failed, health(failed, Health::Ok, Health::Bad), "failed in 24 h"))
            (tile(&state.path("/outbox"), &outbox.lag(times), outbox.health(times.now()), "oldest unpublished event"))
            (counted("/render", waiting, health(waiting, Health::Idle, Health::Ok), "renders waiting"))
        }
    };
    Region::whole("tiles", Audience::On(&[Page::Overview]), markup)
}

pub(crate) async fn page(visit: PageContext) -> PageResult {
    let snapshot = Snapshot::read(&visit.state).await?;
    let regions = regions(&visit.state, &snapshot, &visit.times(snapshot.common.now));
    let frame = Frame::new(&visit, &snapshot.common, Section::Overview).live(Page::Overview);
    Ok(frame.render(&content(&visit, &regions)))
}
