//! The overview page and its live regions.

use super::attention::{self, Sources};
use super::pool::{self, Busiest};
use super::tile::{self, Counts};
use super::{database, event, lease, outbox, process};
use crate::api::status::Totals;
use crate::dashboard::action;
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::instant::Times;
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{command, panel, plain_panel, table};
use crate::dashboard::region::{Audience, Page, Region, show};
use crate::problem::Problem;
use crate::state::State;
use axum::response::Html;
use maud::{Markup, html};
use tidemill_domain::audit::AuditRecord;
use tidemill_store::StoreError;
use tidemill_store::audit::AuditFilter;
use tidemill_store::job::Failure;
use tidemill_store::migration::MigrationStatus;
use tidemill_store::pool::PoolEventSummary;

const EVENTS: u32 = 20;

/// How many failed executions are searched for those that were never restarted.
const FAILURES_AMONG: u32 = 50;

#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) common: PageSnapshot,
    totals: Totals,
    events: Vec<AuditRecord>,
    failures: Vec<Failure>,
    has_jobs: bool,
    stories: Vec<PoolEventSummary>,
    busiest: Option<Busiest>,
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
            stories: pool::stories(&mut tx).await?,
            busiest: Busiest::read(&mut tx, &totals.pools, common.now).await?,
            totals,
            migrations: Vec::new(),
            common,
        };
        drop(tx);
        let migrations = state.store().migration_status().await?;
        Ok(Self { migrations, ..snapshot })
    }

    /// Whether the installation has never been used.
    fn is_new(&self) -> bool {
        !self.has_jobs && self.totals.pools.is_empty() && self.totals.renders.by_status.is_empty()
    }
}

/// The live regions. The page is made of the same.
pub(crate) fn regions(state: &State, snapshot: &Snapshot, times: &Times) -> Vec<Region> {
    let Snapshot { common, totals: Totals { outbox, pools, executions, renders }, failures, .. } = snapshot;
    let counts = Counts { executions: *executions, outbox, renders };
    let mut regions = vec![
        welcome(snapshot),
        tile::region(state, &counts, times),
        attention::region(state, &Sources { common, failures, pools, outbox }, times),
        pool::region(state, pools),
        pool::graph_region(state, snapshot.busiest.as_ref(), times),
        pool::event_region(&snapshot.stories, times),
        outbox::region(outbox, times),
        event::region(&snapshot.events, times),
        process::region(common, state.inner().parts.process.id(), times),
        lease::region(common, times),
        database::region(state, common.latency, &snapshot.migrations),
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
        (panel("outbox", "Outbox", &all("/outbox"), &live("outbox")))
        (panel("events", "Recent events", &last, &table("Recent events", event::COLUMNS, &live("events"))))
        (plain_panel("processes", "Processes", &table("Processes", process::COLUMNS, &live("processes"))))
        (plain_panel("leases", "Leases", &table("Leases", lease::COLUMNS, &live("leases"))))
        (plain_panel("database", "Database", &live("database")))
    }
}

/// The first steps, on an installation that was never used.
fn welcome(snapshot: &Snapshot) -> Region {
    let markup = html! {
        div data-live="welcome" {
            @if snapshot.is_new() {
                div.banner {
                    p { "Nothing has run yet. Try the demo: " (command("tidemill demo")) }
                    p { "Or run your own job: " (command("tidemill job run FILE")) }
                }
            }
        }
    };
    Region::whole("welcome", Audience::On(&[Page::Overview]), markup)
}

pub(crate) async fn page(visit: PageContext) -> Result<Html<String>, Problem> {
    let snapshot = Snapshot::read(&visit.state).await?;
    let regions = regions(&visit.state, &snapshot, &visit.times(snapshot.common.now));
    let frame = Frame::new(&visit, &snapshot.common, Section::Overview).live(Page::Overview);
    Ok(frame.render(&content(&visit, &regions)))
}
